"""Outcomes that a session's calls return."""


async def loop(runtime):
    async with runtime.session(goal="x") as s:
        found = await s.call("web_search", {"q": "x"})
        if found.message:  # expect: RN101
            await s.call("notify", {"text": found.message})
        again = await s.call("web_search", {"q": "y"})
        return found == again  # expect: RN105
