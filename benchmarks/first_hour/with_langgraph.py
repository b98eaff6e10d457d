"""The agent with LangGraph: a graph of nodes over a checkpointer, which is invoked with None to go on.

Nodes, and not tasks of its functional API: those are written in the background, also with `durability="sync"`.
"""

from typing import TypedDict

import shop
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph


class Order(TypedDict, total=False):
    order: str
    cents: int
    receipt: str


def price(state: Order) -> Order:  # noqa: ARG001  # every node takes it
    return {"cents": shop.find_price("lamp")}


def charge(state: Order) -> Order:
    return {"receipt": shop.charge(state["order"], state["cents"])}


def mail(state: Order) -> None:
    shop.send_mail(shop.customer(), state["receipt"])


if __name__ == "__main__":
    graph = StateGraph(Order).add_sequence([price, charge, mail]).add_edge(START, "price")
    with SqliteSaver.from_conn_string("agents.db") as checkpointer:
        agent = graph.compile(checkpointer=checkpointer)
        config = {"configurable": {"thread_id": "order-42"}}
        begun = checkpointer.get_tuple(config) is not None
        print(agent.invoke(None if begun else {"order": "42"}, config, durability="sync")["receipt"])
