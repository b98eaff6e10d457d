"""A planner, a skill and a policy as one writes them."""
import random
import time
from datetime import datetime


def plan(goal, context, manifest):
    steps = []
    for skill in {s["skill_id"] for s in manifest}:  # expect: RN206
        steps.append({"skill_id": skill, "step_id": f"{skill}-{random.randint(0, 9)}"})  # expect: RN201
    return {"steps": steps, "created_at": datetime.now().isoformat()}  # expect: RN203


def should_retry(outcome, attempt):
    if attempt > 3:
        return False
    if "temporarily" in outcome.message:  # expect: RN101
        return True
    return outcome.latency_ms < 1000  # expect: RN102


async def skill(params, ctx):
    started = time.time()  # expect: RN203
    outcome = await ctx.session.call("http_call", params)
    if time.time() - started > 5:  # expect: RN203
        return {"slow": True}
    return {"body": outcome.details["response_body"]}
