"""The agent with Reenact: a session with an id, whose program is started again."""

import shop

from reenact import Runtime

if __name__ == "__main__":
    with Runtime("sqlite:///agents.db").session(id="order-42") as session:
        price = session.step(shop.find_price, "lamp")
        paid = session.step(shop.charge, "42", price.output)
        if paid.ok:
            session.step(shop.send_mail, shop.customer(), paid.output)
        print(paid.output or paid.message)
