"""The agent with DBOS: a workflow of steps, which is recovered when the program is launched again."""

import shop
from dbos import DBOS, SetWorkflowID


@DBOS.workflow()
def buy(order: str) -> str:
    cents = DBOS.run_step(None, shop.find_price, "lamp")
    receipt = DBOS.run_step(None, shop.charge, order, cents)
    DBOS.run_step(None, shop.send_mail, shop.customer(), receipt)
    return receipt


if __name__ == "__main__":
    DBOS(config={"name": "shop"})
    DBOS.launch()
    with SetWorkflowID("order-42"):
        print(buy("42"))
