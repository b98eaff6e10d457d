#!/usr/bin/env node
// Checks what `reenact export` wrote, with Node 22 or newer and nothing else. One file, no packages, nothing is sent.
//
//   node verify.mjs DIR|ZIP [--keys FILE] [--require signature|trust|anchor]... [--witness-policy FILE] [--checkpoint FILE]... [--tsa-ca FILE]... [--json]
//   node verify.mjs --batch [--keys FILE]      one folder or zip a line on stdin, one report a line on stdout
//
// Exit codes: 0 holds, 1 broken or something required is absent, 2 wrong usage, 3 the folder or zip cannot be read,
// 4 no seal: completeness is open.
//
// Follows docs/spec/, and shares no code with Reenact. The steps are those of docs/spec/bundle.md; which check
// comes first, and what it is called, is in docs/spec/verification.md, whose sections the headings here name.

import { Buffer, isUtf8 } from "node:buffer";
import { createHash, createHmac, createPublicKey, verify as verifySignature, X509Certificate } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import zlib from "node:zlib";

const ZERO = "0".repeat(64);
const MAX_LINE = 1_048_576;
const MAX_FILE = 67_108_864;
const MAX_VIEW = 2 ** 36;
const MAX_PACKED_LINE = 89_478_584;
const MAX_PACKED_FILES = 256;
const MAX_DEPTH = 256;
const CHUNK = 1 << 20;
const KEPT_FINDINGS = 100;
const GIVE_UP_AFTER = 1000;
const SHOWN = 160;
/** A message of ours has whole paths in it. */
const SHOWN_MESSAGE = 4000;
const SHOWN_NAMES = 5;
const MOST_NAMES = 1_000_000;

const BREAKS = {
  completeness: ["SEAL_MISSING", "SEAL_COUNT", "SEAL_ROOT", "SEAL_STATUS"],
  anchoring: ["LOG_PROOF", "LOG_SIGNATURE", "LOG_CONTRADICTED"],
  authenticity: ["CAPABILITY_SIGNATURE", "NOTE_SIGNATURE", "KEY_INVALID", "KEY_HISTORY", "ERASURE_SIGNATURE", "SEAL_NOT_SIGNED"],
};

// -- bytes ------------------------------------------------------------------------------------------------------------

const sha256 = () => createHash("sha256");
const hashOf = (data) => sha256().update(data).digest("hex");
const headOf = (hash) => hash.copy().digest("hex");
const own = (object, key) => Object.hasOwn(object, key);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const without = (object, key) => Object.fromEntries(Object.entries(object).filter(([name]) => name !== key));

function fromBase64url(text) {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) return null;
  const data = Buffer.from(text, "base64url");
  return data.toString("base64url") === text ? data : null;
}

// -- canonical JSON: docs/spec/canonical_json.md ----------------------------------------------------------------------

class NotCanonical extends Error {}

/** The RFC 8785 text of a value that came from JSON. */
function canonical(value, depth = 0) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new NotCanonical("a number that JSON does not have");
    return String(value); // as ECMAScript prints it; -0 is 0
  }
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new NotCanonical("a lone surrogate");
    return JSON.stringify(value);
  }
  if (depth >= MAX_DEPTH) throw new NotCanonical(`nested deeper than ${MAX_DEPTH} arrays and objects`);
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, depth + 1)).join(",")}]`;
  const members = Object.keys(value).sort(); // by UTF-16 code units
  return `{${members.map((key) => `${canonical(key)}:${canonical(value[key], depth + 1)}`).join(",")}}`;
}

const digest = (value) => hashOf(canonical(value));
const same = (a, b) =>
  a === b || (typeof a === "object" && typeof b === "object" && a !== null && b !== null && canonical(a) === canonical(b));

/** The value whose canonical form these bytes are, or what is wrong with them: { value } or { code, what }. */
function readCanonical(data, what) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return problem("LINE_NOT_CANONICAL", `${what}: a byte that is not UTF-8`);
  }
  try {
    const value = JSON.parse(text);
    if (canonical(value) === text) return { value };
  } catch {
    // told below
  }
  try {
    new StrictJson(text).document();
  } catch (error) {
    return problem("LINE_NOT_CANONICAL", `${what}: ${error.message}`);
  }
  return problem("LINE_NOT_CANONICAL", `${what} is not canonical JSON`);
}

/** Tells JSON from what is none: one value, no key twice, integers within 2^53 - 1, no half characters. */
class StrictJson {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  fail(why) {
    throw new NotCanonical(`${why} at character ${this.at}`);
  }

  document() {
    this.value(0);
    if (this.peek() !== undefined) this.fail("something stands after the value");
  }

  peek() {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at += 1;
    return this.text[this.at];
  }

  value(depth) {
    const first = this.peek();
    if (first === '"') return void this.string();
    if (first === "{" || first === "[") {
      if (depth >= MAX_DEPTH) this.fail(`nested deeper than ${MAX_DEPTH} arrays and objects`);
      return first === "{" ? this.members(depth) : this.items(depth);
    }
    for (const word of ["true", "false", "null"]) {
      if (this.text.startsWith(word, this.at)) return void (this.at += word.length);
    }
    return this.number();
  }

  number() {
    const form = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
    form.lastIndex = this.at;
    const found = form.exec(this.text);
    if (found === null) this.fail("a value is expected");
    const number = Number(found[0]);
    const whole = found[1] === undefined && found[2] === undefined;
    if (whole ? !Number.isSafeInteger(number) : !Number.isFinite(number)) this.fail("a number out of range");
    this.at += found[0].length;
  }

  string() {
    const start = this.at;
    for (this.at += 1; this.text[this.at] !== '"'; this.at += 1) {
      const code = this.text.charCodeAt(this.at);
      if (Number.isNaN(code) || code < 0x20) this.fail("a string that does not end, or holds a control character");
      if (code !== 0x5c) continue;
      this.at += 1;
      const escape = this.text[this.at];
      if (escape === "u" && /^[0-9a-fA-F]{4}$/.test(this.text.slice(this.at + 1, this.at + 5))) this.at += 4;
      else if (escape === undefined || !'"\\/bfnrt'.includes(escape)) this.fail("a bad escape");
    }
    this.at += 1;
    const value = JSON.parse(this.text.slice(start, this.at));
    if (!value.isWellFormed()) this.fail("a lone surrogate");
    return value;
  }

  take(character) {
    if (this.peek() !== character) this.fail(`${character} is expected`);
    this.at += 1;
  }

  members(depth) {
    const keys = new Set();
    this.at += 1;
    if (this.peek() === "}") return void (this.at += 1);
    for (;;) {
      if (this.peek() !== '"') this.fail("a key is expected");
      const key = this.string();
      if (keys.has(key)) this.fail("a key that stands twice in one object");
      keys.add(key);
      this.take(":");
      this.value(depth + 1);
      if (this.peek() !== ",") return this.take("}");
      this.at += 1;
    }
  }

  items(depth) {
    this.at += 1;
    if (this.peek() === "]") return void (this.at += 1);
    for (;;) {
      this.value(depth + 1);
      if (this.peek() !== ",") return this.take("]");
      this.at += 1;
    }
  }
}

// -- forms of records: docs/spec/verification.md, "Forms" -------------------------------------------------------------
// A form is a function of a value and its place: undefined where it fits, else the place that does not.

const fits = (test) => (value, place) => (test(value) ? undefined : place);
const length = (text) => Array.from(text).length; // in characters, not in UTF-16 code units
const pattern = (form) => fits((value) => typeof value === "string" && form.test(value));
const text = (least = 0, most = Infinity) =>
  fits((value) => typeof value === "string" && (value.length >= least || length(value) >= least) && (value.length <= most || length(value) <= most));
const integer = (least = -Infinity, most = Infinity) =>
  fits((value) => Number.isSafeInteger(value) && value >= least && value <= most);
const oneOf = (...words) => fits((value) => words.includes(value));
const nullable = (form) => (value, place) => (value === null ? undefined : form(value, place));
const optional = (form) => Object.assign((value, place) => form(value, place), { optional: true });
const both = (a, b) => (value, place) => a(value, place) ?? b(value, place);
const anything = fits(() => true);
const list = (form, least = 0) => (value, place) => {
  if (!Array.isArray(value) || value.length < least) return place;
  for (const [index, item] of value.entries()) {
    const wrong = form(item, `${place}[${index}]`);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
};
const mapOf = (keyForm, form) => (value, place) => {
  if (!isObject(value)) return place;
  for (const key of Object.keys(value)) {
    const wrong = keyForm(key, `${place}[…]`) ?? form(value[key], `${place}[…]`);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
};
const tuple = (...forms) => (value, place) => {
  if (!Array.isArray(value) || value.length !== forms.length) return place;
  return forms.map((form, index) => form(value[index], `${place}[${index}]`)).find((wrong) => wrong !== undefined);
};
/** An object with these members; others are refused unless it is `open`. */
const record = (members, open = false) => {
  const names = Object.keys(members);
  const known = new Set(names);
  return (value, place) => {
    if (!isObject(value)) return place;
    for (const name of names) {
      if (!own(value, name)) {
        if (members[name].optional) continue;
        return `${place}.${name}`;
      }
      const wrong = members[name](value[name], `${place}.${name}`);
      if (wrong !== undefined) return wrong;
    }
    return open || Object.keys(value).every((name) => known.has(name)) ? undefined : place;
  };
};

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const HEX64 = /^[0-9a-f]{64}$/;
const uuid7 = pattern(UUID7);
const hex64 = pattern(HEX64);
const kid = pattern(/^[0-9a-f]{16}$/);
const planHash = pattern(/^sha256:[0-9a-f]{64}$/);
const code = pattern(/^[A-Z0-9_]{1,64}$/);
const utility = pattern(/^(?:-?(?:0\.[0-9]{0,5}[1-9]|1)|0)$/);
const exact = pattern(/^(?:0|[1-9][0-9]{0,39})$/);
const stepId = pattern(/^[A-Za-z0-9_.:-]{1,128}$/);
const skillId = both(pattern(/^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_.-]+)?$/), text(1, 128));
const lane = both(pattern(/^main(?:\.[A-Za-z0-9_-]{1,36})*$/), text(1, 100));
const word = pattern(/^[a-z0-9_-]+$/);
const key = text(1, 255);
const who = text(1, 255);
const said = text(10, 1000);
const version = text(1, 64);
const count = integer(0);
const positive = integer(1);
const flag = fits((value) => typeof value === "boolean");
const aText = text();
const state = oneOf("PENDING", "AUTHORIZED", "EXECUTING", "COMPLETED", "FAILED", "DENIED");
const time = fits(isTime);
const anObject = fits(isObject);

function isTime(value) {
  const found = typeof value === "string" && /^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})\.[0-9]{3}Z$/.exec(value);
  if (!found) return false;
  const [year, month, day, hour, minute, second] = found.slice(1).map(Number);
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  return year > 0 && month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] && hour < 24 && minute < 60 && second < 60;
}

const artifact = (kind, members) => ({
  schema_id: oneOf(`talos.tga.${kind}`), schema_version: oneOf("tga.v1"), trace_id: uuid7, plan_id: uuid7, ts: time,
  _digest: hex64, _digest_alg: oneOf("sha256"), ...members,
});
const call = record({ tool_server: word, tool_name: word, args: anObject });
const documentHash = record({ pointer: pattern(/^\//), hash: hex64, size_bytes: count });
const effectStatus = oneOf("SUCCESS", "FAILURE", "DENIED", "ERROR");
const status = oneOf("success", "failure", "partial", "skipped");

const ARTIFACTS = {
  action_request: artifact("action_request", {
    action_request_id: uuid7, agent_id: uuid7, risk_level: oneOf("READ", "WRITE", "HIGH_RISK"), intent: said,
    resources: list(record({ kind: oneOf("repo", "doc", "service", "db"), id: text(1) }), 1), proposal: call,
    meta: record({
      run_id: uuid7, step_id: stepId, step_index: count, turn: count, skill_id: skillId, skill_version: nullable(aText),
      definition_digest: nullable(hex64), idempotency_source: oneOf("caller", "step", "trace"), key: optional(hex64),
      lane: optional(lane),
    }),
  }),
  supervisor_decision: artifact("supervisor_decision", {
    supervisor_decision_id: uuid7, action_request_id: uuid7, action_request_digest: hex64,
    decision: oneOf("APPROVE", "DENY"), rationale: said, minted_capability: optional(aText),
    meta: record({
      gate: oneOf("validate", "permission", "key", "duplicate", "budget", "supervisor"), code, vote: nullable(hex64),
      duplicate_of: nullable(uuid7), details: nullable(hex64), limit_exact: nullable(exact),
      spent_exact: nullable(exact), required_exact: nullable(exact), day_spent_exact: nullable(exact),
      model_spent_exact: nullable(exact), step_utility: optional(utility),
    }),
  }),
  tool_call: artifact("tool_call", {
    tool_call_id: uuid7, supervisor_decision_id: uuid7, supervisor_decision_digest: hex64, capability_digest: hex64,
    call, tool_class: oneOf("read", "write"), idempotency_key: key,
  }),
  tool_effect: artifact("tool_effect", {
    tool_effect_id: uuid7, tool_call_id: uuid7, tool_call_digest: hex64, content_hash_alg: oneOf("sha256"),
    document_hashes: list(documentHash),
    outcome: record({
      status: effectStatus, error: optional(record({ code, message: text(0, 200), retryable: flag })),
    }),
    meta: record({
      code, status, retryable: flag, cost_cents: count, cost_exact: exact, retries: count, attempts: count,
      attempts_head: hex64, served_from: nullable(uuid7), side_effects: hex64, step_utility: optional(utility),
      retries_used_up: optional(oneOf(true)), latency_ms: optional(count),
    }),
  }),
};
const scalars = mapOf(anything, fits((value) => !isObject(value) && !Array.isArray(value)));
const FOREIGN = {
  action_request: { ...ARTIFACTS.action_request, meta: optional(scalars), idempotency_key: optional(key) },
  supervisor_decision: { ...ARTIFACTS.supervisor_decision, meta: optional(scalars), policy_hash: optional(aText) },
  tool_call: {
    ...ARTIFACTS.tool_call, tool_class: optional(oneOf("read", "write")), batch_total_bytes: optional(count),
    expected_document_hashes: optional(list(documentHash)), meta: optional(scalars),
  },
  tool_effect: {
    ...ARTIFACTS.tool_effect, document_hashes: optional(list(documentHash)), content_hash_alg: optional(oneOf("sha256")),
    batch_total_bytes: optional(count), meta: optional(scalars),
    outcome: record({
      status: effectStatus, summary: optional(text(0, 500)),
      external_refs: optional(list(record({ kind: oneOf("github_pr", "github_issue", "doc_id", "commit_sha"), id: aText }))),
      error: optional(record({ code, message: text(0, 200), retryable: optional(flag) })),
    }),
  },
};
const anArtifact = (kinds) => {
  const forms = Object.fromEntries(Object.entries(kinds).map(([kind, members]) => [`talos.tga.${kind}`, record(members)]));
  return (value, place) => {
    if (!isObject(value) || typeof value.schema_id !== "string" || !own(forms, value.schema_id)) return place;
    return forms[value.schema_id](value, place);
  };
};
const entryMembers = {
  schema_id: oneOf("talos.tga.execution_log_entry"), schema_version: oneOf("v1"), trace_id: uuid7,
  sequence_number: positive, prev_entry_digest: hex64, entry_digest: hex64, ts: time, from_state: state, to_state: state,
  artifact_type: oneOf("action_request", "supervisor_decision", "tool_call", "tool_effect"), artifact_id: uuid7,
  artifact_digest: hex64, tool_call_id: nullable(uuid7), idempotency_key: nullable(key),
};
const foreignEntry = { ...entryMembers, tool_call_id: optional(nullable(uuid7)), idempotency_key: optional(nullable(key)) };
const entryLine = (entry, artifacts) => record({ kind: oneOf("entry"), entry: record(entry), artifact: anArtifact(artifacts) });
const line = (kind, members) => record({ kind: oneOf(kind), [kind]: record(members) });

const FOREIGN_ENTRY = entryLine(foreignEntry, FOREIGN);
const LINES = {
  commit: record({ kind: oneOf("commit"), n: positive, prev: hex64, run_id: uuid7 }),
  entry: entryLine(entryMembers, ARTIFACTS),
  run: line("run", {
    schema: oneOf("reenact.run.v1"), run_id: uuid7, kind: oneOf("plan", "session", "trace"),
    mode: oneOf("live", "full_replay", "mock_replay", "dry_run", "fork"), parent_run: nullable(uuid7), plan_id: uuid7,
    agent_id: uuid7, plan_hash: nullable(planHash), plan: nullable(hex64), steps_planned: nullable(count),
    capability_key: kid, reenact_version: version, started_at: time, key_run: optional(uuid7),
  }),
  event: line("event", {
    schema: oneOf("reenact.event.v1"), ts: time, who: nullable(who), reason: nullable(hex64), trace_id: nullable(uuid7),
    data: nullable(hex64),
    type: oneOf("turn", "verify", "now", "finish", "resolve", "cancel", "synthesized", "late", "accept_changed", "went_on", "pinned"),
  }),
  vote: line("vote", {
    schema: oneOf("reenact.vote.v1"), trace_id: uuid7, action_request_digest: hex64, decision: oneOf("APPROVE", "DENY"),
    who, reason: nullable(hex64), ts: time, digest: hex64,
  }),
  attempt: line("attempt", {
    schema: oneOf("reenact.attempt.v1"), trace_id: uuid7, ordinal: count,
    kind: oneOf("attempt", "lost", "redispatch", "served"), attempt: count, code: nullable(code), cost_exact: exact,
    facts: nullable(record({
      http_status: nullable(integer(100, 599)), finish_reason: nullable(text(0, 64)),
      exceptions: list(record({ type: text(1, 255), errno: nullable(integer()) })),
      usage: nullable(record({ input_tokens: nullable(count), output_tokens: nullable(count) })),
    })),
    side_effects: list(record({ type: text(1, 64), target: text(0, 1024), attempt: count })),
    request_id: nullable(text(0, 255)), retry_after_ms: nullable(count), backoff_ms: nullable(count),
    response: nullable(hex64), started_at: nullable(time), ended_at: nullable(time), fence: count, prev: hex64, digest: hex64,
    asked_after: optional(count), made_after: optional(count),
  }),
  checkpoint: line("checkpoint", {
    schema_id: oneOf("talos.tga.execution_checkpoint"), schema_version: oneOf("v1"), trace_id: uuid7,
    checkpoint_sequence_number: count, checkpoint_digest: hex64, ts: time,
    checkpoint_state: record({
      trace_id: uuid7, plan_id: uuid7, current_state: state, last_sequence_number: count, last_entry_digest: hex64,
    }),
  }),
  run_checkpoint: line("run_checkpoint", {
    schema: oneOf("reenact.run_checkpoint.v1"), run_id: uuid7, commits: positive, run_head: hex64, root: hex64,
    open: list(uuid7), spent_exact: exact, reserved_exact: exact, duplicates: hex64, ts: time, digest: hex64,
  }),
  seal: line("seal", {
    schema: oneOf("reenact.seal.v1"), run_id: uuid7, plan_hash: nullable(planHash),
    status: oneOf("completed", "failed", "cancelled"), steps_planned: count, traces: count, commits: positive,
    run_head: hex64, root: hex64, attempts_root: hex64, prev_store_seal: hex64, sealed_at: time, seal_digest: hex64,
  }),
};
const LINE = (value, place) =>
  isObject(value) && typeof value.kind === "string" && own(LINES, value.kind) ? LINES[value.kind](value, place) : place;

const erasureMembers = { commitment: hex64, run_id: uuid7, who, ts: time, reason: text(0, 1000), prev: hex64, digest: hex64 };
const ERASURE = record({ schema: oneOf("reenact.erasure.v1"), ...erasureMembers });
const REMOVAL = record({
  schema: oneOf("reenact.erasure.v2"), ...erasureMembers, bundle: nullable(hex64), type: oneOf("erased", "archived"),
});
const MANIFEST = record({
  schema: oneOf("reenact.bundle.v1", "reenact.bundle.v2"), run_id: uuid7, reenact_version: version,
  payloads: oneOf("full", "none"), digest: hex64,
  files: mapOf(
    pattern(/^(?:(?:journal|erasures|notes|REPLAY)\.jsonl|(?:plan|keys|RECEIPT)\.json|seal\.(?:json|note|tlog-proof|tsr)|payloads\/[0-9a-f]{64}|payloads(?:-[1-9][0-9]{0,2})?\.jsonl\.gz|parents\/[0-9a-f-]{36}\/manifest\.json)$/),
    hex64,
  ),
});
const KEYS = mapOf(kid, aText);
const HEADER = record({ alg: oneOf("EdDSA"), kid, typ: oneOf("JWT") });
const CLAIMS = record({
  iss: pattern(/^reenact:[A-Za-z0-9_.:-]{1,128}$/), aud: oneOf("reenact"), iat: count, exp: count,
  nonce: pattern(/^[0-9a-f]{32}$/), trace_id: uuid7, plan_id: uuid7,
  constraints: record({
    tool_server: aText, tool_name: aText, target_allowlist: list(aText), arg_constraints: anObject, read_only: flag,
  }),
});
const OUTCOME = record({
  status, code, message: aText, timestamp: time, cost_cents: count, latency_ms: count, run_id: uuid7, step_id: stepId,
  details: nullable(anObject), retryable: flag,
  side_effects: list(record({ type: aText, target: aText, attempt: integer(), timestamp: time }, true)),
  metadata: record({ skill_id: aText, skill_version: aText }, true),
  observability: record({ trace_id: aText, backend_retries: integer() }, true),
});
const WENT_ON = record({
  lane: aText, why: oneOf("cancelled", "waiting", "answered"), waited_ms: optional(count), open_ms: optional(count),
  status: optional(oneOf("waiting", "held")), message: optional(aText),
});
const ACCEPTED = record({ skill: aText, pinned: hex64, found: hex64 });

const waitMs = integer(0, 604_800_000);
const multiplier = fits((value) => typeof value === "number" && value >= 1 && value <= 1000 && !(value > 1 && value < 1.001));
const RETRY = record({
  max_retries: optional(integer(0, 10_000)), backoff_base_ms: optional(waitMs), backoff_multiplier: optional(multiplier),
  max_backoff_ms: optional(nullable(waitMs)), jitter_enabled: optional(flag), jitter_max_ms: optional(waitMs),
  retryable_codes: optional(list(code)),
}, true);
const onError = optional(nullable(oneOf("abort", "continue")));
const PLAN = record({
  plan_id: text(1, 128), agent_id: text(1, 128),
  steps: list(record({
    step_id: stepId, skill_id: skillId, skill_version: optional(nullable(aText)), on_error: onError,
    parameters: optional(anything), idempotency_key: optional(anything), retry: optional(nullable(RETRY)),
  }, true)),
  context: record({
    pins: record({ salt: hex64, skills: mapOf(anything, hex64), retry: optional(mapOf(anything, RETRY)) }, true),
    on_error: onError, retry: optional(nullable(RETRY)), budget_cents: optional(nullable(count)),
    budget: optional(nullable(record({ mode: optional(oneOf("hard", "soft")), per_run_cents: optional(nullable(count)) }, true))),
  }, true),
}, true);
const PINNED = record({
  skills: optional(mapOf(anything, record({
    definition_digest: hex64, price: anObject, retry: optional(nullable(RETRY)), side_effects: flag,
  }, true))),
  models: optional(mapOf(anything, anObject)),
});

const chain = record({ count, head: hex64 });
const publicKey = pattern(/^[A-Za-z0-9_-]{43}$/);
const NOTE = record({
  schema: pattern(/^reenact\.[a-z_]{1,40}\.v[0-9]{1,3}$/), digest: hex64, kid, record: optional(anything),
  signature: pattern(/^[A-Za-z0-9_-]{86}$/), store_id: pattern(/^[A-Za-z0-9_.:-]{1,128}$/),
});
const NOTE_RECORDS = {
  "reenact.signing.v1": { erasures: chain, keys: mapOf(kid, publicKey), seals: chain, ts: time },
  "reenact.key_rotation.v1": { new_key: publicKey, new_kid: kid, old_kid: kid, ts: time, who },
  "reenact.key_replacement.v1": {
    new_key: publicKey, new_kid: kid, old_kid: kid, reason: text(0, 1000), runs: list(tuple(uuid7, count, hex64)), ts: time, who,
  },
  "reenact.erasures.v1": { erasures: chain, seal_digest: hex64 },
  "reenact.lease_broken.v1": {
    expires_ms: integer(), owner: aText, reason: text(0, 1000), run_id: aText, token: count, ts: time, who,
  },
};
for (const [schema, members] of Object.entries(NOTE_RECORDS)) {
  NOTE_RECORDS[schema] = record({ schema: oneOf(schema), ...members });
}

const MOST_REPLACEMENTS = 1000; // of one run's key: each of its commits and approvals is held against all of them
const NEWEST = { "reenact.bundle": 2, "reenact.erasure": 2 };

/** What is wrong with the form of a value; a record of ours with another version number was written by a newer Reenact. */
function formProblem(value, form, wrongCode) {
  const wrong = form(value, "$");
  if (wrong === undefined) return null;
  const records = isObject(value) && own(value, "kind") ? Object.values(value) : [value];
  for (const each of records) {
    const found = isObject(each) && typeof each.schema === "string" && /^(reenact\.[a-z_]+)\.v([0-9]{1,6})$/.exec(each.schema);
    const newest = found && own(NEWEST, found[1]) ? NEWEST[found[1]] : 1;
    if (found && !(Number(found[2]) >= 1 && Number(found[2]) <= newest)) {
      return problem("EVIDENCE_VERSION_UNKNOWN", "a record of another version", `${found[1]}.v${newest}`, each.schema);
    }
  }
  return problem(wrongCode, `what stands at ${wrong} is not of the form that it must have`);
}

// -- findings ---------------------------------------------------------------------------------------------------------

const problem = (code, what, expected = null, got = null) => ({ code, what, expected, got });
const at = (where) => ({
  file: null, row: null, commit: null, line: null, offset: null, trace_id: null, step_id: null, payload: null, ...where,
});

/** Evidence as it may be printed: one line, bounded, nothing that moves a cursor or turns text around. */
function shown(value, limit = SHOWN) {
  const whole = typeof value === "string" ? value : typeof value === "bigint" ? String(value) : JSON.stringify(value);
  const characters = Array.from(whole.slice(0, 2 * limit + 2));
  const safe = characters.slice(0, limit).map(printable).join("");
  return characters.length > limit ? `${safe}…` : safe;
}

function printable(character) {
  if (character === " " || !/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}]/u.test(character)) return character;
  const short = { "\t": "\\t", "\n": "\\n", "\r": "\\r" }[character];
  if (short !== undefined) return short;
  const point = character.codePointAt(0);
  if (point < 0x100) return `\\x${point.toString(16).padStart(2, "0")}`;
  return point < 0x10000 ? `\\u${point.toString(16).padStart(4, "0")}` : `\\U${point.toString(16).padStart(8, "0")}`;
}

class Findings {
  kept = [];
  total = 0;
  broken = new Set();
  notes = [];
  said = new Set(); // the same

  add(found, where) {
    const breaks = Object.keys(BREAKS).find((aspect) => BREAKS[aspect].includes(found.code)) ?? "integrity";
    this.total += 1;
    this.broken.add(breaks);
    if (this.kept.length >= KEPT_FINDINGS) return;
    const told = (value) => (value === null || value === undefined ? null : shown(value));
    const { code, what, expected, got } = found;
    this.kept.push({ code, breaks, what: shown(what), expected: told(expected), got: told(got), where: at(where) });
  }

  /** What was found in a part of the evidence, whose files lie at `place`. */
  take(report, place) {
    this.total += report.broken_in_total;
    const room = KEPT_FINDINGS - this.kept.length;
    for (const [index, each] of report.findings.entries()) {
      this.broken.add(each.breaks);
      if (index < room) this.kept.push({ ...each, where: { ...each.where, file: `${place}${each.where.file ?? ""}` } });
    }
  }

  note(said) {
    const text = shown(said);
    if (!this.said.has(text)) this.notes.push(text);
    this.said.add(text);
  }
}

/** The first of [what, expected, got] whose two sides differ. */
function firstDifference(code, pairs) {
  for (const [what, expected, got] of pairs) {
    if (!same(expected, got)) return problem(code, `${what} differs`, expected ?? "null", got ?? "null");
  }
  return null;
}

// -- the tree: docs/spec/seal.md --------------------------------------------------------------------------------------

class Tree {
  size = 0;
  complete = []; // hashes of complete subtrees, left to right, each larger than the next

  append(leaf) {
    let node = sha256().update("\0").update(leaf).digest();
    for (let size = this.size; size % 2 === 1; size = (size - 1) / 2) node = this.join(this.complete.pop(), node);
    this.complete.push(node);
    this.size += 1;
  }

  join(left, right) {
    return sha256().update("\x01").update(left).update(right).digest();
  }

  root(more = []) {
    const whole = new Tree();
    whole.size = this.size;
    whole.complete = [...this.complete];
    for (const leaf of more) whole.append(leaf);
    if (whole.size === 0) return hashOf("");
    return whole.complete.reduceRight((node, left) => this.join(left, node)).toString("hex");
  }
}

// -- a bundle's folder: docs/spec/bundle.md ---------------------------------------------------------------------------

const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = fs.constants;

/** An open file, read from its first byte to its last; `more(data, start)` fills `data`, and says with how many bytes. */
class Opened {
  at = 0;

  constructor(size, more, close = () => {}) {
    Object.assign(this, { size, more, close });
  }

  read(size) {
    const data = Buffer.alloc(size);
    let got = 0;
    while (got < size) {
      const count = this.more(data.subarray(got), this.at);
      if (count === 0) break;
      got += count;
      this.at += count;
    }
    return data.subarray(0, got);
  }

  *chunks() {
    for (let chunk = this.read(CHUNK); chunk.length; chunk = this.read(CHUNK)) yield chunk;
  }

  /** Whether the file is made of these pieces, and no more. */
  equals(pieces) {
    for (const piece of pieces) {
      const data = Buffer.from(piece);
      if (!this.read(data.length).equals(data)) return false;
    }
    return this.read(1).length === 0;
  }
}

/** Follows no link beneath its top, opens nothing but plain files, bounds every size. */
class Folder {
  constructor(top) {
    this.top = top;
  }

  isFolder(name) {
    return fs.lstatSync(path.join(this.top, name)).isDirectory();
  }

  parent(runId) {
    try {
      return this.isFolder("parents") && this.isFolder(`parents/${runId}`) ? new Folder(path.join(this.top, "parents", runId)) : null;
    } catch {
      return null;
    }
  }

  close() {} // nothing stays open between two files

  beside() {
    return []; // what lies outside of the folder is nobody's business here
  }

  /** A plain file, null where nothing is, or a problem. */
  open(name) {
    let fd;
    try {
      if (name.startsWith("payloads/") && !this.isFolder("payloads")) return problem("FILE_KIND", `${name} is not a plain file that can be read`);
      fd = fs.openSync(path.join(this.top, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    } catch (error) {
      return error.code === "ENOENT" ? null : problem("FILE_KIND", `${name} is not a plain file that can be read`);
    }
    const found = fs.fstatSync(fd);
    if (found.isFile()) return new Opened(found.size, (data, start) => fs.readSync(fd, data, 0, data.length, start), () => fs.closeSync(fd));
    fs.closeSync(fd);
    return problem("FILE_KIND", `${name} is not a plain file`);
  }

  /** Give the bytes of a file to `take`: true when all went, null where nothing is, or a problem. */
  feed(name, take, limit) {
    const opened = this.open(name);
    if (opened === null || opened.code) return opened;
    const tooLarge = problem("FILE_TOO_LARGE", `${name} has more than ${limit} bytes`);
    try {
      if (opened.size > limit) return tooLarge;
      let size = 0;
      for (const chunk of opened.chunks()) {
        size += chunk.length;
        if (size > limit) return tooLarge;
        take(chunk);
      }
    } catch (error) {
      if (error instanceof CannotRead) throw error;
      return problem("FILE_KIND", `${name} cannot be read`);
    } finally {
      opened.close();
    }
    return true;
  }

  read(name) {
    const parts = [];
    const fed = this.feed(name, (chunk) => parts.push(chunk), MAX_FILE);
    return fed === true ? Buffer.concat(parts) : fed;
  }

  /** [name, is a plain file] of everything here; a folder in `parents` stands as its manifest. */
  *names() {
    for (const [name, isFile, isFolder] of listing(this.top)) {
      if (name === "payloads" && isFolder) {
        for (const [inner, innerIsFile] of listing(path.join(this.top, name))) yield [`payloads/${inner}`, innerIsFile];
      } else if (name === "parents" && isFolder) {
        for (const [inner, innerIsFile, innerIsFolder] of listing(path.join(this.top, name))) {
          yield innerIsFolder ? [`parents/${inner}/manifest.json`, true] : [`parents/${inner}`, innerIsFile];
        }
      } else yield [name, isFile];
    }
  }
}

/** [name, is a plain file, is a folder], in the order of the names; of more than a million the rest as they come. */
function* listing(folder) {
  const found = [];
  const opened = fs.opendirSync(folder, { encoding: "buffer" });
  try {
    for (let entry = opened.readSync(); entry !== null && found.length < MOST_NAMES; entry = opened.readSync()) {
      found.push([Buffer.from(entry.name), entry.isFile(), entry.isDirectory()]);
    }
    for (const [raw, ...kinds] of found.sort((a, b) => Buffer.compare(a[0], b[0]))) yield [nameOf(raw), ...kinds];
    if (found.length < MOST_NAMES) return;
    for (let entry = opened.readSync(); entry !== null; entry = opened.readSync()) {
      yield [nameOf(Buffer.from(entry.name)), entry.isFile(), entry.isDirectory()];
    }
  } finally {
    opened.closeSync();
  }
}

/** A name that is no UTF-8 is told by its bytes. */
function nameOf(raw) {
  const name = raw.toString("utf8");
  return Buffer.from(name).equals(raw) ? name : Array.from(raw, (byte) => String.fromCharCode(byte < 128 ? byte : 0xdc00 + byte)).join("");
}

/** Lines with their newlines; one that is too long comes as its first bytes, and nothing after it. */
function* linesOf(chunks) {
  let rest = Buffer.alloc(0);
  for (const chunk of chunks) {
    rest = rest.length ? Buffer.concat([rest, chunk]) : chunk;
    let start = 0;
    for (let end = rest.indexOf(10, start); end >= 0; end = rest.indexOf(10, start)) {
      yield rest.subarray(start, end + 1);
      start = end + 1;
    }
    rest = rest.subarray(start);
    if (rest.length > MAX_LINE) return void (yield rest.subarray(0, MAX_LINE + 1));
  }
  if (rest.length) yield rest;
}

// -- a zip of it: docs/spec/bundle.md, "A zip of it" ------------------------------------------------------------------

const MAX_ENTRIES = 500_000;
const MAX_DIRECTORY = 256 << 20;
const MAX_INFLATED = 1 << 30;
const BOMB_RATIO = 200;
const CP437 =
  "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0";

/** A bundle's folder in a zip, read in place; `top` is the folder in it. Nothing is unpacked to disk. */
class ZippedFolder {
  constructor(zip, top) {
    Object.assign(this, { zip, top });
  }

  close() {
    fs.closeSync(this.zip.fd);
  }

  parent(runId) {
    const top = `${this.top}parents/${runId}/`;
    return [...this.zip.files.keys()].some((name) => name.startsWith(top)) ? new ZippedFolder(this.zip, top) : null;
  }

  open(name) {
    const entry = this.zip.files.get(this.top + name);
    if (entry !== undefined) return this.zip.open(entry);
    return this.zip.folders.has(`${this.top}${name}/`) ? problem("FILE_KIND", `${name} is not a plain file`) : null;
  }

  feed(name, take, limit) {
    const entry = this.zip.files.get(this.top + name);
    if (entry !== undefined && entry.size > limit) return problem("FILE_TOO_LARGE", `${name} has more than ${limit} bytes`);
    const opened = this.open(name);
    if (opened === null || opened.code) return opened;
    for (const chunk of opened.chunks()) take(chunk);
    return true;
  }

  read(name) {
    const parts = [];
    const fed = this.feed(name, (chunk) => parts.push(chunk), MAX_FILE);
    return fed === true ? Buffer.concat(parts) : fed;
  }

  /** What else lies in the zip, outside of the bundle's folder. */
  beside() {
    return [...this.zip.files.keys()].filter((name) => !name.startsWith(this.top));
  }

  names() {
    const found = new Map();
    for (const whole of [...this.zip.files.keys(), ...this.zip.folders]) {
      if (!whole.startsWith(this.top) || whole === this.top) continue;
      const [first, ...rest] = whole.slice(this.top.length).split("/");
      const isFile = !whole.endsWith("/");
      const [inner, ...deeper] = rest;
      let told = [first, isFile && !rest.length];
      if (first === "payloads" && inner) told = [`payloads/${inner}`, isFile && !deeper.length];
      else if (first === "parents" && inner) told = [deeper.length ? `parents/${inner}/manifest.json` : `parents/${inner}`, true];
      else if (["payloads", "parents"].includes(first) && !isFile) continue;
      if (!found.has(told[0])) found.set(...told);
    }
    const bytes = (name) => [name.split("/", 1)[0], name.slice(name.indexOf("/") + 1)].map((part) => Buffer.from(part));
    return [...found].map((told) => [told, ...bytes(told[0])]).sort((a, b) => Buffer.compare(a[1], b[1]) || Buffer.compare(a[2], b[2])).map(([told]) => told);
  }
}

/** The central directory of a zip, and its entries where they lie. */
class Zip {
  files = new Map();
  folders = new Set();
  seen = new Map();

  constructor(target) {
    this.target = target;
    this.fd = fs.openSync(target, O_RDONLY | O_NONBLOCK);
    try {
      const found = fs.fstatSync(this.fd);
      if (!found.isFile()) this.refuse("it is not a plain file; name a folder or a zip");
      this.size = found.size;
      this.readDirectory();
    } catch (error) {
      fs.closeSync(this.fd);
      throw error;
    }
  }

  refuse(what) {
    throw new CannotRead(`${this.target}: ${what}`);
  }

  damaged(what) {
    return this.refuse(`the zip is damaged: ${what}; ask for it again`);
  }

  at(start, size) {
    const data = Buffer.alloc(size);
    let got = 0;
    for (let count = 1; got < size && count > 0; got += count) count = fs.readSync(this.fd, data, got, size - got, start + got);
    return data.subarray(0, got);
  }

  /** A number of 64 bits that can be a place in a file; -1 for any other. */
  number64(data, start) {
    const found = data.readBigUInt64LE(start);
    return found > BigInt(Number.MAX_SAFE_INTEGER) ? -1 : Number(found);
  }

  readDirectory() {
    const { count, size, start, limit } = this.end();
    if (start + size !== limit) this.damaged("its directory is not where its end says");
    if (count > MAX_ENTRIES || size > MAX_DIRECTORY) this.refuse(`the zip has ${count} entries; at most ${MAX_ENTRIES} are read: unzip it`);
    const directory = this.at(start, size);
    let offset = 0;
    for (let number = 0; number < count; number += 1) offset = this.entry(directory, offset);
    if (offset !== directory.length) this.damaged("its directory holds more than its entries");
    this.refuseOverlap(start);
    let total = 0;
    for (const { size: inflated } of this.files.values()) total += inflated;
    if (total > MAX_INFLATED && total > BOMB_RATIO * this.size) this.refuse(`refused as a zip bomb: ${this.size} bytes that unpack to ${total}`);
  }

  end() {
    const tailAt = Math.max(0, this.size - 22 - 0xffff);
    const tail = this.at(tailAt, this.size - tailAt);
    let found = tail.lastIndexOf("PK\x05\x06", undefined, "latin1");
    const isEnd = (place) => tail.length - place >= 22 && place + 22 + tail.readUInt16LE(place + 20) === tail.length;
    while (found >= 0 && !isEnd(found)) found = found === 0 ? -1 : tail.lastIndexOf("PK\x05\x06", found - 1, "latin1");
    if (found < 0) {
      if (this.at(0, 2).toString("latin1") === "PK") this.refuse("the zip was cut: its end is missing; ask for it again");
      this.refuse("it is neither a folder nor a zip; name what `reenact export` wrote, or a zip of it");
    }
    const [disk, firstDisk, here, count] = [4, 6, 8, 10].map((place) => tail.readUInt16LE(found + place));
    const [size, start] = [12, 16].map((place) => tail.readUInt32LE(found + place));
    if (disk || firstDisk || here !== count) this.refuse("the zip is one of several parts; put them together first");
    return count === 0xffff || size === 0xffffffff || start === 0xffffffff ? this.end64(tailAt + found) : { count, size, start, limit: tailAt + found };
  }

  end64(endAt) {
    if (endAt < 20 + 56) this.damaged("its end is not one");
    const locator = this.at(endAt - 20, 20);
    const start = this.number64(locator, 8);
    if (locator.toString("latin1", 0, 4) !== "PK\x06\x07" || start < 0 || start > endAt - 20 - 56) this.damaged("its end is not one");
    const found = this.at(start, 56);
    const [here, count, size, place] = [24, 32, 40, 48].map((each) => this.number64(found, each));
    const [disk, firstDisk] = [16, 20].map((each) => found.readUInt32LE(each));
    if (found.toString("latin1", 0, 4) !== "PK\x06\x06" || disk || firstDisk || here !== count || Math.min(count, size, place) < 0) this.damaged("its end is not one");
    return { count, size, start: place, limit: start };
  }

  /** Where the next entry begins. */
  entry(directory, offset) {
    if (directory.length - offset < 46 || directory.toString("latin1", offset, offset + 4) !== "PK\x01\x02") this.damaged("its directory cannot be read");
    const [madeBy, , flags, method] = [4, 6, 8, 10].map((place) => directory.readUInt16LE(offset + place));
    const [crc, packed, size] = [16, 20, 24].map((place) => directory.readUInt32LE(offset + place));
    const [names, extras, comments] = [28, 30, 32].map((place) => directory.readUInt16LE(offset + place));
    const [attributes, start] = [38, 42].map((place) => directory.readUInt32LE(offset + place));
    const end = offset + 46 + names + extras + comments;
    if (end > directory.length) this.damaged("its directory cannot be read");
    const rawName = directory.subarray(offset + 46, offset + 46 + names);
    const name = this.name(rawName);
    this.refuseKind(name, flags, method, madeBy >> 8 === 3 ? attributes >>> 16 : 0);
    const extra = directory.subarray(offset + 46 + names, offset + 46 + names + extras);
    const sizes = this.sizes(name, [size, packed, start], extra);
    if (method === 0 && sizes.size !== sizes.packed) this.lies(name);
    if (name.endsWith("/")) this.folders.add(name);
    else this.files.set(name, { ...sizes, crc, method, rawName, name });
    return end;
  }

  lies(name) {
    this.refuse(`the zip is damaged or lies: the sizes of ${shown(name)} cannot be true`);
  }

  sizes(name, said, extra) {
    let large = [];
    for (let place = 0; extra.length - place >= 4; place += 4 + extra.readUInt16LE(place + 2)) {
      if (extra.readUInt16LE(place) !== 1) continue;
      const data = extra.subarray(place + 4, place + 4 + extra.readUInt16LE(place + 2));
      large = Array.from({ length: data.length >> 3 }, (_, number) => this.number64(data, 8 * number));
    }
    const [size, packed, start] = said.map((number) => (number === 0xffffffff ? (large.shift() ?? -1) : number));
    if (Math.min(size, packed, start) < 0 || start + packed > this.size || size > packed * 1100 + 1100) this.lies(name);
    return { size, packed, start };
  }

  name(raw) {
    const isText = Buffer.from(raw.toString("utf8")).equals(raw);
    const name = isText ? raw.toString("utf8") : Array.from(raw, (byte) => (byte < 128 ? String.fromCharCode(byte) : CP437[byte - 128])).join("");
    const bare = name.endsWith("/") ? name.slice(0, -1) : name;
    const leadsElsewhere = name.startsWith("/") || /^[A-Za-z]:/.test(name) || bare.split("/").some((part) => ["", ".", ".."].includes(part));
    if (leadsElsewhere || name.includes("\\") || name.includes("\0")) this.refuse(`refused: the zip holds a name that leads elsewhere, '${shown(name)}'`);
    const same = bare.normalize("NFC").toUpperCase().toLowerCase();
    const before = this.seen.get(same) ?? name;
    if (before !== name) this.refuse(`refused: the zip holds '${shown(before)}' and '${shown(name)}', which many systems take for one`);
    if (this.seen.has(same)) this.refuse(`refused: the zip holds '${shown(name)}' twice`);
    this.seen.set(same, name);
    return name;
  }

  refuseKind(name, flags, method, mode) {
    if (flags & (1 | (1 << 6) | (1 << 13))) this.refuse(`${shown(name)} is encrypted; ask for a zip without a password`);
    const kind = mode & 0o170000;
    if (kind === 0o120000) this.refuse(`refused: ${shown(name)} is a link`);
    if (![0, 0o100000, 0o040000].includes(kind)) this.refuse(`refused: ${shown(name)} is not a plain file`);
    if (method !== 0 && method !== 8) this.refuse(`${shown(name)} is packed by method ${method}, which is not read here; unzip it`);
  }

  /** No byte belongs to two entries: that is how a small zip unpacks to a huge one. */
  refuseOverlap(directoryAt) {
    let end = 0;
    for (const entry of [...this.files.values()].sort((a, b) => a.start - b.start)) {
      if (entry.start < end) this.refuse(`refused: ${shown(entry.name)} overlaps another file of the zip`);
      end = entry.start + 30 + entry.rawName.length + entry.packed;
    }
    if (end > directoryAt) this.damaged("a file reaches into its directory");
  }

  /** The folder that holds the bundle: none, or the one at the top that everything was zipped with. */
  top() {
    if (this.files.has("manifest.json")) return "";
    const tops = [...this.files.keys()].filter((name) => /^[^/]+\/manifest\.json$/.test(name) && !isLitter(name)).map((name) => name.slice(0, -13));
    if (!tops.length) this.refuse("it holds no bundle: no manifest.json, neither at its top nor in a folder there");
    if (tops.length > 1) this.refuse(`it holds ${tops.length} bundles (${tops.map((each) => shown(each.slice(0, -1))).sort().slice(0, 5).join(", ")}); unzip it and name one`);
    return tops[0];
  }

  /** An entry whose bytes are as many as the directory says, and have its CRC. */
  open(entry) {
    const wrong = (what) => this.refuse(`${shown(entry.name)} ${what}; ask for the zip again`);
    const start = this.dataAt(entry, wrong);
    if (entry.method === 0) {
      const take = (data, from) => fs.readSync(this.fd, data, 0, Math.min(data.length, entry.size - from), start + from);
      let sum = 0;
      for (const chunk of new Opened(entry.size, take).chunks()) sum = zlib.crc32(chunk, sum);
      return sum === entry.crc ? new Opened(entry.size, take) : wrong("is damaged: its CRC-32 is not the one that the zip says");
    }
    if (entry.size > MAX_INFLATED) this.refuse(`${shown(entry.name)} has ${entry.size} bytes, more than is unpacked in memory here; unzip it`);
    const data = this.inflated(entry, start, wrong);
    return new Opened(entry.size, (into, from) => data.copy(into, 0, from, from + into.length));
  }

  inflated(entry, start, wrong) {
    let found;
    try {
      found = zlib.inflateRawSync(this.at(start, entry.packed), { info: true, maxOutputLength: Math.max(1, entry.size) });
    } catch (error) {
      return wrong(`is damaged: ${error.message}`);
    }
    const data = found.buffer;
    if (data.length !== entry.size || found.engine.bytesWritten !== entry.packed) return wrong("is damaged: it has other bytes than the zip says");
    return zlib.crc32(data) === entry.crc ? data : wrong("is damaged: its CRC-32 is not the one that the zip says");
  }

  /** What stands before an entry's bytes must say what the directory says. */
  dataAt(entry, wrong) {
    const head = this.at(entry.start, 30);
    if (head.length < 30 || head.toString("latin1", 0, 4) !== "PK\x03\x04") return wrong("is not where the zip's directory says");
    const [names, extras] = [26, 28].map((place) => head.readUInt16LE(place));
    if (head.readUInt16LE(8) !== entry.method || !this.at(entry.start + 30, names).equals(entry.rawName)) return wrong("is another file than the zip's directory says");
    return entry.start + 30 + names + extras;
  }
}

// -- payloads and erasures: docs/spec/payloads.md ---------------------------------------------------------------------

/** Looks at each payload once, when the journal first names it. */
class Payloads {
  runId = null;
  sizes = new Map(); // by commitment; -1 of what is absent
  last = [null, null]; // what was read last is often asked for next
  counts = { present: 0, erased: 0, archived: 0, lost: 0, withheld: 0 };

  constructor(source, erased, findings) {
    Object.assign(this, { source, erasedOnRecord: erased, findings });
  }

  see(commitment, where, size = null) {
    if (commitment === null) return;
    const place = { ...where, payload: commitment };
    if (!this.sizes.has(commitment)) this.sizes.set(commitment, this.firstLook(commitment, place));
    const real = this.sizes.get(commitment);
    if (size !== null && real !== -1 && real !== size) {
      this.findings.add(problem("PAYLOAD_CONTENT", "size_bytes of the envelope", real, size), place);
    }
  }

  /** { value }, or null where it is absent or damaged, which is then already told. */
  value(commitment, where) {
    if (commitment === null) return null;
    this.see(commitment, where);
    if (this.last[0] !== commitment) {
      const envelope = this.source === null ? null : this.source(commitment);
      const found = envelope === null ? null : openEnvelope(envelope, commitment);
      this.last = [commitment, found === null || found.code ? null : found];
    }
    return this.last[1];
  }

  firstLook(commitment, where) {
    this.last = [commitment, null];
    if (this.source === null) {
      this.counts.withheld += 1;
      return -1;
    }
    const envelope = this.source(commitment);
    if (envelope === null) {
      this.absent(commitment, where);
      return -1;
    }
    this.counts.present += 1;
    const found = openEnvelope(envelope, commitment);
    if (found.code) this.findings.add(found, where);
    else this.last = [commitment, found];
    if (this.erasedOnRecord.get(commitment)?.bundle === null) {
      this.findings.add(problem("PAYLOAD_NOT_ERASED", `payload ${commitment} is there although it was erased`), where);
    }
    return envelope.length;
  }

  absent(commitment, where) {
    const named = this.erasedOnRecord.get(commitment);
    if (named !== undefined) {
      this.counts[named.bundle === null ? "erased" : "archived"] += 1;
      if (named.bundle !== null) this.findings.note(`values are archived in the bundle ${named.bundle}`);
      if (this.runId !== null && this.runId !== named.runId) {
        this.findings.add(problem("ERASURE_CHAIN", "a value of this run was erased in the name of another", this.runId, named.runId), where);
      }
      return;
    }
    this.counts.lost += 1;
    this.findings.add(problem("PAYLOAD_LOST", `payload ${commitment} is missing, and no erasure record names it`), where);
  }
}

function openEnvelope(envelope, commitment) {
  const got = hashOf(envelope);
  if (got !== commitment) return problem("PAYLOAD_CHANGED", "the digest of a payload's envelope", commitment, got);
  if (envelope.length <= 32) return problem("PAYLOAD_MALFORMED", `payload ${commitment} holds no value after its salt`);
  const read = readCanonical(envelope.subarray(32), "the payload");
  return read.code ? problem("PAYLOAD_MALFORMED", `payload ${commitment}: ${read.what}`) : read;
}

/** The commitments that were erased on record, with the run of each record; and [digest, place] of every record. */
function readErasures(lines, findings) {
  const erased = new Map();
  const seen = new Set();
  const followed = new Set();
  const records = [];
  for (const [index, raw] of lines.entries()) {
    const where = { file: "erasures.jsonl", line: index + 1 };
    const read = readCanonical(raw, "the erasure record");
    const form = read.value?.schema === "reenact.erasure.v2" ? REMOVAL : ERASURE;
    const wrong = read.code ? read : formProblem(read.value, form, "ERASURE_CHAIN");
    if (wrong) {
      findings.add(wrong, where);
      continue;
    }
    const found = read.value;
    const recomputed = digest(without(found, "digest"));
    const again = found.type === "archived" && found.bundle !== null && erased.get(found.commitment)?.bundle === null;
    const broken = erasureProblem(found, recomputed, seen, followed)
      ?? (again ? problem("ERASURE_CHAIN", `payload ${found.commitment} was archived after it was erased`) : null);
    const nowhere = found.type === "archived" && found.bundle === null;
    if (broken) findings.add(broken, where);
    else {
      if (nowhere) findings.add(problem("ERASURE_CHAIN", `payload ${found.commitment} is said to be archived, and not where`), where);
      const runId = erased.get(found.commitment)?.runId ?? found.run_id;
      erased.set(found.commitment, { runId, bundle: found.type === "archived" ? found.bundle : null });
    }
    records.push([recomputed, where, found.schema]);
    seen.add(found.digest);
    followed.add(found.prev);
  }
  return { erased, records };
}

function erasureProblem(found, recomputed, seen, followed) {
  if (found.digest !== recomputed) return problem("ERASURE_CHAIN", "the digest of an erasure record", recomputed, found.digest);
  if (followed.has(found.prev)) return problem("ERASURE_CHAIN", `two erasure records follow ${found.prev}`);
  if (followed.has(found.digest)) return problem("ERASURE_CHAIN", "an erasure record stands after one that follows it");
  if (found.prev === ZERO && seen.size) return problem("ERASURE_CHAIN", "the store's first erasure record is not the first line");
  return null;
}

// -- keys and notes: docs/spec/store_sqlite.md, "Notes" ---------------------------------------------------------------

/** { kid, key } of a public key in base64url. */
function decodedKey(spelled) {
  const raw = fromBase64url(spelled);
  if (raw === null || raw.length !== 32) return null;
  const jwk = { kty: "OKP", crv: "Ed25519", x: raw.toString("base64url") };
  return { kid: hashOf(raw).slice(0, 16), key: createPublicKey({ key: jwk, format: "jwk" }) };
}

function hasSigned(key, signed, signature) {
  try {
    return verifySignature(null, Buffer.from(signed), key, signature);
  } catch {
    return false;
  }
}

const signsNote = (key, note) =>
  key !== undefined && note.signature !== null && hasSigned(key, `${note.schema}\n${note.store_id}\n${note.digest}\n`, note.signature);

/** The public keys that signatures are checked with. `unknown` counts those that no key was there for. */
class KeyRing {
  keys = new Map();
  verified = 0;
  unknown = 0;
  issuers = new Set();
  successions = new Map();
  bound = 0; // capabilities of engines that sign seals and erasures too
  beginsBound = null; // whether the first that was verified is one
  unapproved = 0; // capabilities whose key is there and not trusted for capabilities; `unknown` counts them too
  purposes = () => PURPOSES; // (kid, store id): what a key's word counts for in a store; [] where it is no key of that store

  constructor(keys, findings) {
    for (const [named, spelled] of Object.entries(keys ?? {})) {
      const found = decodedKey(spelled);
      const where = { file: "keys.json", row: `kid ${shown(named)}` };
      if (found === null) findings.add(problem("KEY_INVALID", `key ${named} is not 32 bytes in base64url`), where);
      else if (found.kid !== named) findings.add(problem("KEY_INVALID", "the kid of a key", found.kid, named), where);
      else this.keys.set(named, found.key);
    }
  }

  /** For what is signed beside the journal, in the name of this store. */
  key(kid, storeId) {
    return this.purposes(kid, storeId).includes("seals") ? this.keys.get(kid) : undefined;
  }

  of(runId) {
    return this.successions.get(runId ?? "") ?? [];
  }

  /** The key that signs in a commit of the run that began with `began`. */
  kidAt(runId, began, commit) {
    return this.of(runId).reduce((now, taken) => (taken.oldKid === now && (commit ?? 0) > taken.commits ? taken.newKid : now), began);
  }

  /** A key that was lost is replaced from one head on, and no other. */
  headProblem(runId, commit, head) {
    const other = this.of(runId).find((taken) => taken.commits === commit && taken.head !== head());
    return other ? problem("KEY_HISTORY", "the commit at which the run's key was replaced", other.head, head()) : null;
  }
}

function readNotes(lines, findings) {
  const notes = [];
  for (const [index, raw] of lines.entries()) {
    const where = { file: "notes.jsonl", line: index + 1 };
    const read = readCanonical(raw, "the note");
    const wrong = read.code ? read : formProblem(read.value, NOTE, "NOTE_MALFORMED");
    if (wrong) findings.add(problem("NOTE_MALFORMED", wrong.what), where);
    else notes.push({ ...read.value, signature: fromBase64url(read.value.signature), where });
  }
  return notes;
}

/** What the notes about keys say, as far as they are signed. */
class KeyHistory {
  storeId = null;
  beginning = null;
  keys = new Map();
  rotations = [];
  heirs = []; // [key, the one that took over from it, whether it vouched for that one], in order
  begunBy = null; // the key that signed the beginning
  successions = new Map();
  sealed = [];

  constructor(notes, findings) {
    this.findings = findings;
    for (const note of notes) {
      if ((note.record ?? null) === null || !own(NOTE_RECORDS, note.schema)) continue;
      const wrong = formProblem(note.record, NOTE_RECORDS[note.schema], "NOTE_MALFORMED");
      const got = wrong ? null : digest(note.record);
      if (wrong) findings.add(problem("NOTE_MALFORMED", wrong.what), note.where);
      else if (got !== note.digest) findings.add(problem("NOTE_MALFORMED", "the digest of a note's record", note.digest, got), note.where);
      else this.take(note, note.record);
    }
  }

  broken(note, what, expected = null, got = null) {
    this.findings.add(problem("KEY_HISTORY", what, expected, got), note.where);
  }

  take(note, found) {
    this.storeId ??= note.store_id;
    if (note.store_id !== this.storeId) return this.broken(note, "a note is of another store", this.storeId, note.store_id);
    if (note.schema === "reenact.signing.v1") return this.begin(note, found);
    if (note.schema === "reenact.erasures.v1") return void this.sealed.push([note, found]);
    if (note.schema !== "reenact.lease_broken.v1") return this.follow(note, found);
    if (!signsNote(this.keys.get(note.kid), note)) {
      this.findings.add(problem("NOTE_SIGNATURE", "that a lease was broken is not signed by a key of the store"), note.where);
    }
    return undefined;
  }

  begin(note, found) {
    if (this.beginning !== null) return this.broken(note, "what signs for the store has two beginnings");
    this.beginning = found;
    for (const named of Object.keys(found.keys).sort()) this.add(note, named, found.keys[named]);
    if (!signsNote(this.keys.get(note.kid), note)) this.broken(note, "the beginning of what is signed is not signed by one of its keys");
    else this.begunBy = note.kid;
    return undefined;
  }

  follow(note, found) {
    const isRotation = note.schema === "reenact.key_rotation.v1";
    const name = isRotation ? "rotation" : "replacement";
    if (this.beginning === null || !this.keys.has(found.old_kid)) return this.broken(note, `the ${name} of a key that never signed here`, null, found.old_kid);
    const fresh = decodedKey(found.new_key);
    if (fresh === null || fresh.kid !== found.new_kid) return this.broken(note, `the ${name} names a key that is not the one of its kid`, found.new_kid);
    const signer = isRotation ? found.old_kid : found.new_kid;
    const key = isRotation ? this.keys.get(found.old_kid) : fresh.key;
    if (note.kid !== signer || !signsNote(key, note)) return this.broken(note, `the ${name} to key ${found.new_kid} is not signed by ${signer}`, signer, note.kid);
    this.add(note, found.new_kid, found.new_key);
    this.heirs.push([found.old_kid, found.new_kid, isRotation]);
    if (isRotation) return void this.rotations.push(found);
    for (const [runId, commits, head] of found.runs) {
      if (!this.successions.has(runId)) this.successions.set(runId, []);
      const taken = this.successions.get(runId);
      if (taken.length === MOST_REPLACEMENTS) return this.broken(note, `the key of run ${runId} was replaced more than ${MOST_REPLACEMENTS} times`);
      taken.push({ commits, head, oldKid: found.old_kid, newKid: found.new_kid });
    }
    return undefined;
  }

  add(note, named, spelled) {
    const found = decodedKey(spelled);
    if (found === null || found.kid !== named) this.broken(note, "a key is not the one of its kid", named, found?.kid);
    else this.keys.set(named, found.key);
  }

  /** Who may sign for the store where this key does: itself and whom it vouched for, and who came in the place of one. */
  signers(kid) {
    const vouched = new Set([kid, ...(this.begunBy === kid ? Object.keys(this.beginning.keys) : [])]);
    const others = new Set();
    for (const [from, to, isVouched] of this.heirs) {
      if (vouched.has(from) && isVouched) vouched.add(to);
      else if (vouched.has(from) || others.has(from)) others.add(to);
    }
    return { vouched, others: new Set([...others].filter((each) => !vouched.has(each))) };
  }

  /** These keys, and those to which one of them was rotated, by kid. */
  trusted(keys) {
    const found = new Map(keys);
    for (const { old_kid: from, new_kid: to, new_key: publicKey } of this.rotations) {
      if (found.has(from) && !found.has(to)) found.set(to, { ...found.get(from), publicKey });
    }
    return found;
  }
}

const PURPOSES = ["seals", "capabilities", "log"];

/** The store that minted a capability, by its `iss`. */
const issuingStore = (issuer) => issuer.replace(/^reenact:/, "");

/** Whom the reader trusts for what (docs/spec/trusted_keys.md). With `only` no other key counts. */
class Trust {
  constructor(keys = [], only = false) {
    Object.assign(this, { keys, only });
  }

  /** By kid: those that may sign for this store. */
  ofStore(storeId) {
    const found = new Map();
    for (const key of this.keys) if ((key.storeId === null || key.storeId === storeId) && !found.has(key.kid)) found.set(key.kid, key);
    return found;
  }

  /** By kid: those that may sign for some store. */
  ofAny() {
    const found = new Map();
    for (const key of this.keys) found.set(key.kid, [...(found.get(key.kid) ?? []), key]);
    return found;
  }
}

/** Which keys are believed, and what they signed beside the journal. */
class Signed {
  constructor(notes, findings, keys, trust) {
    Object.assign(this, { notes, findings, keys: keys ?? {}, only: trust.only });
    this.history = new KeyHistory(notes, findings);
    this.lines = trust.ofAny();
    this.here = this.history.trusted(trust.ofStore(this.history.storeId));
    const first = [...this.lines].map(([kid, [key]]) => [kid, key]);
    const named = Object.fromEntries([...first, ...this.here].map(([kid, { publicKey }]) => [kid, publicKey]));
    this.named = trust.only ? named : { ...named, ...this.keys };
    this.ring = new KeyRing(this.named, findings);
    this.ring.successions = this.history.successions;
    this.ring.purposes = (kid, storeId) => (this.isOwn(kid) ? PURPOSES : (this.trusted(kid, storeId)?.purposes ?? []));
    this.said = new Set(); // the stores in whose name the notes are signed that count
    this.erasedBy = new Set();
    this.seen = []; // erasure records
    this.unvouched = new Set(); // keys that came in the place of a lost one
  }

  isOwn(kid) {
    return !this.only && own(this.keys, kid);
  }

  /** As whom the reader trusts this key in what it signs for the store, which every signature names. */
  trusted(kid, storeId) {
    if (storeId === this.history.storeId) return this.here.get(kid);
    return this.lines.get(kid)?.find((key) => key.storeId === null || key.storeId === storeId);
  }

  /** Whose heads of the store's log are believed: public keys. */
  get logKeys() {
    const { storeId } = this;
    return Object.entries(this.named).filter(([kid]) => this.ring.purposes(kid, storeId).includes("log")).map(([, spelled]) => spelled);
  }

  /** What the store calls itself, as far as that is known: by its notes or by the run's capabilities. */
  get storeId() {
    const named = this.issuers.length ? this.issuers : [...this.said];
    return this.history.storeId ?? (named.length === 1 ? named[0] : null);
  }

  get issuers() {
    return [...this.ring.issuers].map(issuingStore);
  }

  about(digestOf) {
    if (this.byDigest === undefined) {
      this.byDigest = new Map();
      for (const note of this.notes) {
        if (!this.byDigest.has(note.digest)) this.byDigest.set(note.digest, []);
        this.byDigest.get(note.digest).push(note);
      }
    }
    return this.byDigest.get(digestOf) ?? [];
  }

  erasures(lines) {
    const { erased, records } = readErasures(lines, this.findings);
    this.seen = records;
    for (const [note] of this.history.sealed) {
      if (!signsNote(this.history.keys.get(note.kid), note)) {
        this.findings.add(problem("ERASURE_SIGNATURE", `the count of erasures is not signed by key ${note.kid}`), note.where);
      }
    }
    return erased;
  }

  /** Who signed the erasures, once the journal was read; `began` is the key that its run began with. */
  signedErasures(began) {
    const { beginning, keys } = this.history;
    let older = beginning === null ? Infinity : beginning.erasures.count;
    let may = beginning === null ? null : new Set(keys.keys());
    if (this.ring.beginsBound && began !== null) {
      const { vouched, others } = this.history.signers(began);
      this.unvouched = others;
      [older, may] = [0, new Set([...vouched, ...others])];
    } else if (beginning === null && this.ring.bound) older = 0;
    let unsigned = 0;
    let isSigned = false;
    for (const [about, where, schema] of this.seen) {
      const rows = this.about(about).filter((note) => ["reenact.erasure.v1", "reenact.erasure.v2"].includes(note.schema));
      isSigned ||= rows.length > 0;
      for (const note of rows) this.erasureNote(note, where, may);
      if (rows.length) continue;
      if (older === Infinity || (schema === "reenact.erasure.v1" && unsigned < older && !isSigned)) unsigned += 1;
      else this.findings.add(problem("ERASURE_SIGNATURE", "an erasure that nobody signed, of a store that signs"), where);
    }
    if (unsigned) this.findings.note(`who erased, when and why is not signed for ${unsigned} erased values`);
    this.ring.unknown += unsigned;
  }

  erasureNote(note, where, may) {
    this.erasedBy.add(note.store_id);
    if (may !== null && !may.has(note.kid)) {
      const what = `an erasure is signed by key ${note.kid}, which signs nothing for the store of this run`;
      return void this.findings.add(problem("ERASURE_SIGNATURE", what), where);
    }
    const key = this.history.keys.get(note.kid) ?? this.ring.key(note.kid, note.store_id);
    const sameStore = this.history.storeId === null || this.history.storeId === note.store_id;
    if (key === undefined) this.ring.unknown += 1;
    else if (!sameStore || !signsNote(key, note)) {
      this.findings.add(problem("ERASURE_SIGNATURE", `the signature of an erasure does not fit key ${note.kid}`), where);
    } else if (this.ring.key(note.kid, note.store_id) === undefined) this.ring.unknown += 1;
    else if (this.unvouched.has(note.kid) && this.trusted(note.kid, note.store_id) === undefined) {
      this.findings.note(`erasures are signed by key ${note.kid}, not vouched for by the key that was lost`);
      this.ring.unknown += 1;
    } else this.ring.verified += 1;
    return undefined;
  }

  /** What is known once the journal was read: of which store it is, and whose key went on with it. */
  end(journal) {
    if (this.seen.length) this.signedErasures(journal.run?.capability_key ?? null);
    for (const taken of this.ring.of(journal.runId)) {
      this.findings.note(`key replaced at commit ${taken.commits}, not vouched for by the old key (${taken.oldKid} was lost, ${taken.newKid} signs since)`);
      if (journal.commits < taken.commits) {
        const what = `the run's key was replaced at commit ${taken.commits}, and the run ends before it`;
        this.findings.add(problem("KEY_HISTORY", what), { file: "journal.jsonl", commit: journal.commits || null });
      }
      if (this.ring.key(taken.newKid, this.history.storeId) === undefined) this.ring.unknown += 1;
    }
    const others = this.history.beginning === null ? [...this.erasedBy] : [this.history.storeId];
    if (others.length && this.issuers.some((issuer) => others.some((each) => each !== issuer))) {
      this.findings.add(problem("KEY_HISTORY", "the notes are of another store than the run", null, `reenact:${others.sort()[0]}`), { file: "notes.jsonl" });
    }
  }

  /** What is signed of the run that was read, and by whom; what must be signed and is not is told. */
  signature(journal) {
    if (journal.run === null) return this.by("nothing", null);
    for (const vote of journal.votes.keys()) this.noteOf("reenact.vote.v1", vote, null);
    const kidAt = (commit) => this.ring.kidAt(journal.runId, journal.run.capability_key, commit);
    const upTo = [...journal.runCheckpoints].filter(([about, commit]) => this.noteOf("reenact.run_checkpoint.v1", about, kidAt(commit))).map(([, commit]) => commit);
    const approvals = this.ring.verified ? "capabilities" : "nothing";
    if (journal.seal === null) {
      const last = upTo.length ? Math.max(...upTo) : null;
      return { ...this.by(last === null ? approvals : "part", kidAt(last ?? journal.commits)), commits: last ?? 0, is_open: true };
    }
    const signer = kidAt(journal.commits);
    const told = this.findings.total;
    if (this.noteOf("reenact.seal.v1", journal.seal.seal_digest, signer) !== null) return { ...this.by("run", signer), commits: journal.commits };
    const signsHere = this.issuers.some((issuer) => this.ring.key(signer, issuer) !== undefined);
    if (this.ring.bound && signsHere && this.findings.total === told) {
      const what = `key ${signer} has not signed the seal: it was changed, or the note about it was taken away`;
      this.findings.add(problem("SEAL_NOT_SIGNED", what), { file: "notes.jsonl", commit: journal.commits });
    }
    return this.by(approvals, signer);
  }

  /** Whether the key (any, for null) has signed this: true; false where it is not there; null where it has not. */
  noteOf(schema, about, kid) {
    let found = null;
    for (const note of this.about(about)) {
      const stores = this.issuers.length ? this.issuers : [this.history.storeId ?? note.store_id];
      const isOurs = stores.length === 1 && stores[0] === note.store_id; // what was signed for another store says nothing here
      if (note.schema !== schema || (kid !== null && kid !== note.kid) || !isOurs) continue;
      this.said.add(note.store_id);
      const key = this.ring.key(note.kid, note.store_id);
      if (key === undefined) found = found ?? false;
      else if (signsNote(key, note)) found = true;
      else this.findings.add(problem("NOTE_SIGNATURE", `the note about ${schema} ${about} is not signed by the key ${note.kid}`), note.where);
    }
    return found;
  }

  by(covers, kid) {
    const nobody = { covers, by: null, kid: null, trusted_as: null, commits: 0, is_open: false, of: "folder", unapproved: this.ring.unapproved };
    if (covers === "nothing") return nobody;
    const trusted = this.trusted(kid, this.storeId);
    if (trusted?.purposes.includes(covers === "capabilities" ? "capabilities" : "seals")) return { ...nobody, by: "trusted_key", kid, trusted_as: trusted.name };
    return { ...nobody, by: this.isOwn(kid) && this.ring.key(kid, this.storeId) !== undefined ? "own_key" : "untrusted_key", kid };
  }

  /** Whether a signed note says what the notes about the seal say; ids of keys are checked where those are there. */
  isSealNote(data, sealDigest) {
    const rows = this.about(sealDigest).filter((note) => note.schema === "reenact.seal.v1");
    let found;
    try {
      found = readNote(data);
    } catch {
      return false;
    }
    const isLine = (each, row) => {
      const raw = own(this.keys, row.kid) ? (fromBase64url(this.keys[row.kid]) ?? Buffer.alloc(0)) : null;
      const name = `reenact/${row.store_id}`;
      return each.name === name && row.signature !== null && each.signature.equals(row.signature) && (raw === null || each.id === keyId(name, ED25519, raw));
    };
    const says = (row) => found.text === `${row.schema}\n${row.store_id}\n${row.digest}\n`;
    return found.signatures.every((each) => rows.some((row) => says(row) && isLine(each, row)));
  }
}

// -- capabilities: docs/spec/entry_and_artifacts.md, "Capability" -----------------------------------------------------

/** { header, claims, signed, signature }, or { wrong }. */
function readCapability(spelled) {
  const parts = spelled.split(".");
  const [header, claims, signature] = parts.map(fromBase64url);
  if (parts.length !== 3 || header === null || claims === null || signature === null) {
    return { wrong: problem("CAPABILITY_MISMATCH", "the capability is not a compact JWS") };
  }
  const token = { signed: `${parts[0]}.${parts[1]}`, signature };
  for (const [name, data, form] of [["header", header, HEADER], ["claims", claims, CLAIMS]]) {
    const read = readCanonical(data, `the capability's ${name}`);
    const wrong = read.code ? read : formProblem(read.value, form, "CAPABILITY_MISMATCH");
    if (wrong) return { wrong: problem("CAPABILITY_MISMATCH", `the capability's ${name}: ${wrong.what}`) };
    token[name] = read.value;
  }
  return token;
}

function boundsOf(run, request, decision) {
  const prefix = "Approved by ";
  return digest({
    agent: run.agent_id,
    approver: decision.rationale.startsWith(prefix) ? decision.rationale.slice(prefix.length) : "key",
    arguments: request.proposal.args.$commit ?? null,
    definition: request.meta.definition_digest,
    mode: run.mode,
    plan: run.plan_hash,
    request: request._digest,
    run: run.run_id,
    vote: decision.meta.vote,
  }).slice(0, 32);
}

function checkCapability(token, scene, request, decision, targets, report) {
  if (token.wrong) return report(token.wrong);
  const { run, ring } = scene;
  const { header, claims } = token;
  const { constraints } = claims;
  ring.issuers.add(claims.iss);
  const second = Math.floor(Date.parse(decision.ts) / 1000);
  const bounds = { $commit: request.proposal.args.$commit ?? null };
  if (own(constraints.arg_constraints, "$bounds")) bounds.$bounds = boundsOf(run, request, decision);
  report(firstDifference("CAPABILITY_MISMATCH", [
    ["the capability's trace_id", request.trace_id, claims.trace_id],
    ["the capability's plan_id", request.plan_id, claims.plan_id],
    ["the capability's kid", ring.kidAt(run.run_id, run.capability_key, scene.where.commit), header.kid],
    ["the capability's iat", claims.iat === second - 1 ? claims.iat : second, claims.iat],
    ["the capability's exp", claims.iat + 300, claims.exp],
    ["the capability's tool_server", request.proposal.tool_server, constraints.tool_server],
    ["the capability's tool_name", request.proposal.tool_name, constraints.tool_name],
    ["the capability's target_allowlist", targets, constraints.target_allowlist],
    ["the capability's arg_constraints", bounds, constraints.arg_constraints],
  ]));
  const purposes = ring.purposes(header.kid, issuingStore(claims.iss));
  const key = purposes.length ? ring.keys.get(header.kid) : undefined;
  const fits = key === undefined ? null : hasSigned(key, token.signed, token.signature);
  if (fits === false) return report(problem("CAPABILITY_SIGNATURE", `the signature does not fit key ${header.kid}`));
  if (fits) {
    ring.bound += bounds.$bounds === undefined ? 0 : 1;
    ring.beginsBound ??= bounds.$bounds !== undefined;
  }
  if (fits && purposes.includes("capabilities")) ring.verified += 1;
  else ring.unknown += 1;
  if (fits && !purposes.includes("capabilities")) ring.unapproved += 1;
  return undefined;
}

// -- attempts: docs/spec/attempts.md ----------------------------------------------------------------------------------

const UNSET_IN = {
  redispatch: ["facts", "code", "request_id", "retry_after_ms", "backoff_ms", "response", "started_at", "ended_at"],
  served: ["facts", "backoff_ms"],
  lost: ["request_id", "retry_after_ms", "backoff_ms"],
  attempt: [],
};
const SET_IN = {
  attempt: ["facts", "code", "started_at", "ended_at"],
  lost: ["facts", "code", "ended_at", "response"],
  served: ["code"],
  redispatch: [],
};

/** Which members an attempt record of each kind has set, and which it has not. */
function attemptFormProblem(found) {
  const { kind } = found;
  const wrong =
    UNSET_IN[kind].some((name) => found[name] !== null) ||
    SET_IN[kind].some((name) => found[name] === null) ||
    (kind === "lost" && (found.code !== "ERR_IN_DOUBT" || found.cost_exact !== "0")) ||
    (kind === "served" && found.cost_exact !== "0") ||
    (kind !== "attempt" && found.side_effects.length > 0);
  return wrong ? problem("LINE_MALFORMED", `a record of kind ${kind} has what it must not have, or lacks what it must`) : null;
}

/** Folds attempt records to the sums that an effect repeats. */
class AttemptChain {
  count = 0;
  results = 0;
  cost = 0n;
  effects = [];
  last = null;

  constructor(traceId, callDigest) {
    Object.assign(this, { traceId, head: callDigest });
  }

  append(found) {
    const wrong = this.problemOf(found);
    this.head = found.digest;
    this.count += 1;
    this.results += found.kind === "attempt" ? 1 : 0;
    this.cost += BigInt(found.cost_exact);
    this.effects.push(...found.side_effects.map(({ type, target }) => [type, target]));
    this.last = found;
    return wrong;
  }

  problemOf(found) {
    const recomputed = digest(without(found, "digest"));
    if (found.digest !== recomputed) return problem("ATTEMPT_DIGEST", "the digest of an attempt", recomputed, found.digest);
    if (this.last?.kind === "served") return problem("ATTEMPT_CHAIN", "an attempt follows one that was served from the record");
    if (found.kind === "lost" && this.last?.kind === "lost") return problem("ATTEMPT_CHAIN", "the answer to one dispatch was lost twice");
    return firstDifference("ATTEMPT_CHAIN", [
      ["the attempt's trace_id", this.traceId, found.trace_id],
      ["the attempt's ordinal", this.count, found.ordinal],
      ["the attempt's prev", this.head, found.prev],
      ["the attempt's number", this.results, found.attempt],
      ["the attempt number of its side effects", true, found.side_effects.every(({ attempt }) => attempt === found.attempt)],
    ]) ?? attemptFormProblem(found);
  }

  summaryProblem(meta) {
    const cents = (this.cost + 9_999_999_999n) / 10_000_000_000n;
    return firstDifference("EFFECT_MISMATCH", [
      ["meta.attempts", this.count, meta.attempts],
      ["meta.attempts_head", this.head, meta.attempts_head],
      ["meta.retries", Math.max(0, this.results - 1), meta.retries],
      ["meta.cost_exact", String(this.cost), meta.cost_exact],
      ["meta.cost_cents", String(cents), String(meta.cost_cents)],
      ["meta.side_effects", digest(this.effects), meta.side_effects],
      ["meta.served_from is there", this.last?.kind === "served", meta.served_from !== null],
      ["retries that are used up belong to a failure", false, meta.retries_used_up === true && !(meta.status === "failure" && meta.retryable && meta.retries > 0)],
    ]);
  }
}

// -- one trace: docs/spec/entry_and_artifacts.md ----------------------------------------------------------------------

const FOLLOWING = new Set([
  "PENDING AUTHORIZED supervisor_decision", "PENDING DENIED supervisor_decision", "AUTHORIZED EXECUTING tool_call",
  "EXECUTING COMPLETED tool_effect", "EXECUTING FAILED tool_effect",
]);
const NO_DISPATCH = ["reenact:no-dispatch"];
const kindOf = (found) => found.schema_id.slice("talos.tga.".length);
const idOf = (found) => found[`${kindOf(found)}_id`];

/** Folds entries to a state. An entry is applied whether it fits or not, so that reading can go on. */
class EntryChain {
  sequence = 0;
  head = ZERO;
  state = "PENDING";

  get terminal() {
    return ["COMPLETED", "FAILED", "DENIED"].includes(this.state);
  }

  append(entry) {
    const wrong = this.problemOf(entry);
    this.sequence = entry.sequence_number;
    this.head = entry.entry_digest;
    this.state = entry.to_state;
    return wrong;
  }

  problemOf(entry) {
    const { sequence_number: number, artifact_type: kind } = entry;
    if (number !== this.sequence + 1) return problem("STATE_SEQUENCE_GAP", "the entry's sequence number", this.sequence + 1, number);
    if (entry.prev_entry_digest !== this.head) return problem("STATE_CHECKSUM_MISMATCH", "the digest of the entry before", this.head, entry.prev_entry_digest);
    if (entry.from_state !== this.state) return problem("STATE_INVALID_TRANSITION", "the state that the entry starts from", this.state, entry.from_state);
    const step = `${entry.from_state} ${entry.to_state} ${kind}`;
    if (number === 1 ? step !== "PENDING PENDING action_request" : !FOLLOWING.has(step)) {
      return problem("STATE_INVALID_TRANSITION", `${step} is no transition of entry ${number}`);
    }
    if (kind === "tool_call" && (entry.tool_call_id ?? null) === null) return problem("MISSING_TOOL_CALL_ID", "a tool_call entry names no tool_call_id");
    const recomputed = digest(without({ tool_call_id: null, idempotency_key: null, ...entry }, "entry_digest"));
    return entry.entry_digest === recomputed ? null : problem("STATE_CHECKSUM_MISMATCH", "entry_digest", recomputed, entry.entry_digest);
  }
}

const beside = (entry, found) => [
  ["the entry's artifact_type", kindOf(found), entry.artifact_type],
  ["the entry's artifact_id", idOf(found), entry.artifact_id],
  ["the entry's artifact_digest", found._digest, entry.artifact_digest],
  ["the entry's trace_id", found.trace_id, entry.trace_id],
  ["the entry's ts", found.ts, entry.ts],
];

function digestProblem(found) {
  return firstDifference("ARTIFACT_DIGEST", [["_digest of the artifact", digest(without(found, "_digest")), found._digest]]);
}

/** A part of a skill's id as artifacts name it: docs/spec/README.md, "Identifiers". */
function projectedPart(part) {
  const plain = /^[a-z0-9_-]{1,64}$/.test(part) && !/^x-[0-9a-f]{32}$/.test(part);
  return plain ? part : `x-${hashOf(part).slice(0, 32)}`;
}

/** The rationale that an approval must have: `person` if and only if a vote decided. */
function approvalOf({ meta, rationale }) {
  if (meta.gate === "key") return "Answered by its idempotency key";
  if (meta.vote !== null) return "Approved by person";
  return rationale === "Approved by policy" ? rationale : "Approved by auto";
}

/** Folds the lines of one trace. */
class Trace {
  stepId = null;
  chain = new EntryChain();
  request = null;
  decision = null;
  claims = null;
  call = null;
  attempts = null;
  expired = false; // the call was made outside of its capability's lifetime
  expectedKey = null;
  damaged = false; // once the chain is broken, what follows would only repeat it
  overruled = false; // a person or a late result decided the outcome

  constructor(traceId, index) {
    Object.assign(this, { traceId, index });
  }

  leaf() {
    return canonical({ head: this.chain.head, state: this.chain.state, step_index: this.index, trace_id: this.traceId });
  }

  entry({ entry, artifact: found }, scene, report) {
    const broken = this.damaged;
    const kind = kindOf(found);
    if (this.stepId === null && kind === "action_request") this.stepId = found.meta.step_id;
    const called = kind === "tool_call" || kind === "tool_effect";
    const wrong =
      digestProblem(found) ??
      firstDifference("ARTIFACT_LINK", [
        ["the artifact's plan_id", scene.run.plan_id, found.plan_id],
        ...beside(entry, found),
        ...(called ? [] : [["the entry's tool_call_id", null, entry.tool_call_id], ["the entry's idempotency_key", null, entry.idempotency_key]]),
      ]);
    const unchained = this.chain.append(entry);
    if (wrong ?? unchained) this.damaged = true;
    if (broken) return;
    if (wrong ?? unchained) return void report(wrong ?? unchained);
    if (kind === "action_request") this.takeRequest(found, scene, report);
    else if (kind === "supervisor_decision") this.takeDecision(found, scene, report);
    else if (kind === "tool_call") this.takeCall(found, entry, report);
    else this.takeEffect(found, entry, scene, report);
    if (this.chain.terminal) Object.assign(this, { request: null, decision: null, claims: null, call: null, attempts: null });
  }

  takeRequest(request, scene, report) {
    this.request = request;
    const { run, payloads } = scene;
    const { meta, proposal } = request;
    const where = { ...scene.where, step_id: meta.step_id };
    const dot = meta.skill_id.indexOf(".");
    const server = dot < 0 ? "local" : meta.skill_id.slice(0, dot);
    const tool = meta.skill_id.slice(dot + 1);
    const ownSource = run.key_run === undefined ? "trace" : "step";
    const keyed = meta.key !== undefined;
    report(firstDifference("ARTIFACT_CONTENT", [
      ["meta.run_id", run.run_id, meta.run_id],
      ["agent_id", run.agent_id, request.agent_id],
      ["meta.step_index", this.index, meta.step_index],
      ["intent", `Run ${meta.skill_id}@${meta.skill_version || "unknown"} for step ${meta.step_id}`, request.intent],
      ["tool_server", projectedPart(server), proposal.tool_server],
      ["tool_name", projectedPart(tool), proposal.tool_name],
      ["meta.idempotency_source", keyed ? "caller" : ownSource, meta.idempotency_source],
      ["meta.turn is not ahead of the turns", true, meta.turn <= scene.turns],
    ]));
    const named = proposal.args.$commit;
    const commitment = typeof named === "string" && HEX64.test(named) ? named : null;
    if (commitment === null) report(problem("ARTIFACT_CONTENT", "args.$commit is not a commitment"));
    else this.checkPublic(proposal.args, commitment, payloads, where, report);
    const args = payloads.value(commitment, where);
    if (scene.plan !== null && run.kind === "plan") checkStep(scene, meta, args, where, report);
    const given = keyed ? payloads.value(meta.key, where) : null;
    if (given !== null && typeof given.value !== "string") report(problem("PAYLOAD_CONTENT", "the caller's idempotency key is not a string"));
    if (meta.idempotency_source === "trace") this.expectedKey = request.trace_id;
    else if (run.key_run === undefined && typeof given?.value === "string" && scene.salt !== null) {
      this.expectedKey = `k:${createHmac("sha256", scene.salt).update(given.value).digest("hex")}`;
    }
  }

  checkPublic(args, commitment, payloads, where, report) {
    payloads.see(commitment, where);
    const names = Object.keys(args).filter((name) => name !== "$commit");
    const found = names.length ? payloads.value(commitment, where) : null;
    if (found === null) return;
    const fit = isObject(found.value) && names.every((name) => own(found.value, name) && canonical(found.value[name]) === canonical(args[name]));
    if (!fit) report(problem("PAYLOAD_CONTENT", "public arguments differ from those in the payload"));
  }

  takeDecision(decision, scene, report) {
    const { request } = this;
    this.decision = decision;
    const { meta } = decision;
    const approved = this.chain.state === "AUTHORIZED";
    const ofKey = meta.gate === "key";
    const minted = decision.minted_capability;
    report(
      firstDifference("ARTIFACT_LINK", [
        ["action_request_id", request.action_request_id, decision.action_request_id],
        ["action_request_digest", request._digest, decision.action_request_digest],
        ["the decision", approved ? "APPROVE" : "DENY", decision.decision],
        ["minted_capability is there", approved, minted !== undefined],
      ]) ??
        firstDifference("ARTIFACT_CONTENT", [
          ["meta.gate", approved && !ofKey ? "supervisor" : meta.gate, meta.gate],
          ["the gate `key` decides about a caller's key", ofKey, ofKey && request.meta.key !== undefined],
          ["meta.vote of the gate `key`", null, ofKey ? meta.vote : null],
          ["meta.code is OK", approved, meta.code === "OK"],
          ["rationale", approved ? approvalOf(decision) : `Refused by gate ${meta.gate}: ${meta.code}`, decision.rationale],
        ]),
    );
    if (meta.vote !== null) report(voteProblem(decision, scene.votes));
    scene.payloads.see(meta.details, scene.where);
    if (minted === undefined) return;
    const token = readCapability(minted);
    this.claims = token.claims ?? null;
    const targets = ofKey ? NO_DISPATCH : request.resources.map(({ id }) => id);
    checkCapability(token, scene, request, decision, targets, report);
    if (!ofKey && same(targets, NO_DISPATCH)) report(problem("CAPABILITY_MISMATCH", "an approval of the supervisor under which nothing may be sent"));
  }

  takeCall(found, entry, report) {
    const { request, decision, claims } = this;
    this.call = found;
    this.attempts = new AttemptChain(this.traceId, found._digest);
    const minted = decision.minted_capability;
    const classOf = { READ: "read", WRITE: "write" }[request.risk_level] ?? found.tool_class;
    report(
      firstDifference("ARTIFACT_LINK", [
        ["supervisor_decision_id", decision.supervisor_decision_id, found.supervisor_decision_id],
        ["supervisor_decision_digest", decision._digest, found.supervisor_decision_digest],
        ["capability_digest", minted === undefined ? "none" : hashOf(minted), found.capability_digest],
        ["call", canonical(request.proposal), canonical(found.call)],
        ["the entry's tool_call_id", found.tool_call_id, entry.tool_call_id],
        ["the entry's idempotency_key", found.idempotency_key, entry.idempotency_key],
        ["idempotency_key", this.keyFor(found.idempotency_key), found.idempotency_key],
      ]) ?? firstDifference("ARTIFACT_CONTENT", [["the class of a call of this risk", classOf, found.tool_class]]),
    );
    if (claims === null) return;
    const reads = found.tool_class === "read";
    if (claims.constraints.read_only !== reads) report(problem("CAPABILITY_MISMATCH", "the capability's read_only", reads, claims.constraints.read_only));
    const called = Date.parse(found.ts);
    this.expired = !(claims.iat * 1000 <= called && called < claims.exp * 1000);
  }

  /** What the key must be; its form alone where that cannot be told without the store's secret. */
  keyFor(got) {
    if (this.expectedKey !== null) return this.expectedKey;
    const begin = this.request.meta.idempotency_source === "caller" ? "k:" : "s:";
    return got.startsWith(begin) && HEX64.test(got.slice(2)) ? got : `${begin} and 64 hex digits`;
  }

  get answered() {
    return this.decision?.meta.gate === "key";
  }

  attempt(found, report) {
    if (this.damaged) return;
    if (this.attempts === null || this.chain.state !== "EXECUTING") {
      this.damaged = true;
      return void report(problem("ATTEMPT_CHAIN", "an attempt is recorded while the call is not executing", "EXECUTING", this.chain.state));
    }
    let wrong = this.attempts.append(found);
    if (wrong === null && this.answered && found.kind !== "served") wrong = problem("ATTEMPT_CHAIN", "a dispatch of a call that its key answered", "served", found.kind);
    if (wrong !== null) {
      this.damaged = true;
      report(wrong);
    } else if (this.expired && found.kind !== "served") report(problem("CAPABILITY_EXPIRED", "a dispatch under an expired capability"));
  }

  /** The outcome that a caller got whose answer was lost. */
  lossProblem(outcome) {
    const wrong = formProblem(outcome, OUTCOME, "PAYLOAD_CONTENT");
    if (wrong) return problem("PAYLOAD_CONTENT", `the outcome of a lost answer: ${wrong.what}`);
    return firstDifference("PAYLOAD_CONTENT", [
      ["the outcome's step_id", this.stepId, outcome.step_id],
      ["the outcome's trace_id", this.traceId, outcome.observability.trace_id],
      ["the outcome of a lost answer", "failure ERR_IN_DOUBT", `${outcome.status} ${outcome.code}`],
      ["whether it may be called again", false, outcome.retryable],
    ]);
  }

  takeEffect(effect, entry, scene, report) {
    const { call: made, attempts } = this;
    report(firstDifference("ARTIFACT_LINK", [
      ["tool_call_id", made.tool_call_id, effect.tool_call_id],
      ["tool_call_digest", made._digest, effect.tool_call_digest],
      ["the entry's tool_call_id", made.tool_call_id, entry.tool_call_id],
      ["the entry's idempotency_key", made.idempotency_key, entry.idempotency_key],
    ]));
    report(attempts.summaryProblem(effect.meta) ?? this.statusProblem(effect));
    if (this.expired && effect.outcome.status !== "DENIED") report(problem("CAPABILITY_EXPIRED", "the call's capability had expired when it was made"));
    this.checkDocuments(effect, scene, report);
  }

  statusProblem({ meta, outcome }) {
    const { attempts } = this;
    const good = this.chain.state === "COMPLETED";
    const message = Array.from(`Step ${this.stepId} ended with ${meta.code}`).slice(0, 200).join("");
    const pairs = [
      ["outcome.status is SUCCESS", good, outcome.status === "SUCCESS"],
      ["meta.status is a success", good, meta.status === "success" || meta.status === "partial"],
      ["outcome.error", good ? null : { code: meta.code, message, retryable: meta.retryable }, outcome.error ?? null],
    ];
    if (this.answered) pairs.push(["a call that its key answered succeeds, served once", 1, good ? attempts.count : 0]);
    if (good && attempts.last !== null && !this.overruled) pairs.push(["the code of the last attempt", attempts.last.code, meta.code]);
    return firstDifference("EFFECT_MISMATCH", pairs);
  }

  checkDocuments(effect, scene, report) {
    const { payloads, where } = scene;
    const pointers = effect.document_hashes.map(({ pointer }) => pointer);
    if (!same(pointers, ["/output", "/outcome"])) return void report(problem("ARTIFACT_CONTENT", "document_hashes", "/output, /outcome", pointers.join(", ")));
    const [output, outcome] = effect.document_hashes;
    payloads.see(output.hash, where, output.size_bytes);
    if (this.chain.state === "FAILED") {
      const found = payloads.value(output.hash, where);
      if (found !== null && found.value !== null) report(problem("PAYLOAD_CONTENT", "the output of a failed step is not null"));
    }
    payloads.see(outcome.hash, where, outcome.size_bytes);
    const told = payloads.value(outcome.hash, where);
    if (told !== null) report(outcomeProblem(told.value, effect.meta, this.request));
  }

  checkpoint(found, planId) {
    if (this.damaged) return null;
    const inner = found.checkpoint_state;
    return firstDifference("STATE_CHECKSUM_MISMATCH", [
      ["checkpoint_digest", digest(inner), found.checkpoint_digest],
      ["checkpoint_state.trace_id", found.trace_id, inner.trace_id],
      ["checkpoint_sequence_number", inner.last_sequence_number, found.checkpoint_sequence_number],
      ["checkpoint_state.plan_id", planId, inner.plan_id],
      ["checkpoint_state.current_state", this.chain.state, inner.current_state],
      ["checkpoint_state.last_sequence_number", this.chain.sequence, inner.last_sequence_number],
      ["checkpoint_state.last_entry_digest", this.chain.head, inner.last_entry_digest],
    ]);
  }
}

function voteProblem(decision, votes) {
  const vote = votes.get(decision.meta.vote);
  if (vote === undefined) return problem("VOTE_MISMATCH", "the decision names a vote that was not cast before it");
  return firstDifference("VOTE_MISMATCH", [
    ["the vote's trace_id", decision.trace_id, vote.trace_id],
    ["the vote's decision", decision.decision, vote.decision],
  ]);
}

function outcomeProblem(outcome, meta, request) {
  const wrong = formProblem(outcome, OUTCOME, "PAYLOAD_CONTENT");
  if (wrong) return problem("PAYLOAD_CONTENT", `the outcome: ${wrong.what}`);
  const effects = outcome.side_effects.map(({ type, target }) => [type, target]);
  return firstDifference("PAYLOAD_CONTENT", [
    ["the outcome's run_id", request.meta.run_id, outcome.run_id],
    ["the outcome's step_id", request.meta.step_id, outcome.step_id],
    ["the outcome's status", meta.status, outcome.status],
    ["the outcome's code", meta.code, outcome.code],
    ["the outcome's retryable", meta.retryable, outcome.retryable],
    ["the outcome's cost_cents", meta.cost_cents, outcome.cost_cents],
    ["the outcome's backend_retries", meta.retries, outcome.observability.backend_retries],
    ["the outcome's trace_id", request.trace_id, outcome.observability.trace_id],
    ["the outcome's skill_id", request.meta.skill_id, outcome.metadata.skill_id],
    ["the outcome's side_effects", meta.side_effects, digest(effects)],
    ["the outcome's latency_ms", meta.latency_ms ?? outcome.latency_ms, outcome.latency_ms],
    ["the outcome leaves out details.output", true, !own(outcome.details ?? {}, "output")],
  ]);
}

/** One trace that another runtime wrote: chain, artifacts and their links, and no more. */
class ForeignTrace extends Trace {
  planId = null;

  entry({ entry, artifact: found }, _scene, report) {
    const broken = this.damaged;
    this.planId ??= found.plan_id;
    const wrong = digestProblem(found) ?? firstDifference("ARTIFACT_LINK", [["the artifact's plan_id", this.planId, found.plan_id], ...beside(entry, found)]);
    const first = this.chain.append(entry) ?? wrong;
    this.damaged = broken || first !== null;
    if (!broken) report(first ?? firstDifference("ARTIFACT_LINK", this.links(found)));
  }

  links(found) {
    const kind = kindOf(found);
    const asked = this.request;
    if (kind === "action_request") {
      this.request = found;
      return [];
    }
    if (kind === "supervisor_decision") {
      this.decision = found;
      const approved = found.decision === "APPROVE";
      return [
        ["action_request_id", asked.action_request_id, found.action_request_id],
        ["action_request_digest", asked._digest, found.action_request_digest],
        ["the state after the decision", approved ? "AUTHORIZED" : "DENIED", this.chain.state],
        ["minted_capability is there", approved, found.minted_capability !== undefined],
      ];
    }
    if (kind === "tool_call") {
      this.call = found;
      return [
        ["supervisor_decision_id", this.decision.supervisor_decision_id, found.supervisor_decision_id],
        ["supervisor_decision_digest", this.decision._digest, found.supervisor_decision_digest],
        ["call", canonical(asked.proposal), canonical(found.call)],
      ];
    }
    return [
      ["tool_call_id", this.call.tool_call_id, found.tool_call_id],
      ["tool_call_digest", this.call._digest, found.tool_call_digest],
      ["the effect is a success", this.chain.state === "COMPLETED", found.outcome.status === "SUCCESS"],
    ];
  }

  attempt(_found, report) {
    report(problem("ATTEMPT_CHAIN", "an attempt in a trace of another runtime, which records none"));
  }

  checkpoint(found, planId) {
    return super.checkpoint(found, this.planId ?? planId);
  }
}

// -- the plan: docs/spec/plan.md --------------------------------------------------------------------------------------

const planHashOf = (document) => `sha256:${digest(without(document, "created_at"))}`;
const planProblem = (document) => formProblem(document, PLAN, "PLAN_MISMATCH");
const pinnedDigest = (plan, named) => (own(plan.context.pins.skills, named) ? plan.context.pins.skills[named] : null);

/** A UUIDv7 itself, or the one that stands for a text: docs/spec/README.md, "Identifiers". */
function projectedId(name) {
  if (UUID7.test(name)) return name;
  const bytes = sha256().update(name).digest().subarray(0, 16);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function runPlanProblem(plan, run) {
  return firstDifference("PLAN_MISMATCH", [
    ["plan_hash", planHashOf(plan), run.plan_hash],
    ["plan_id", projectedId(plan.plan_id), run.plan_id],
    ["agent_id", projectedId(plan.agent_id), run.agent_id],
    ["steps_planned", plan.steps.length, run.steps_planned],
  ]);
}

function parentProblem(run) {
  if (run.mode === "live" && run.kind === "session") return null;
  if (run.mode !== "dry_run" && (run.mode === "live") !== (run.parent_run === null)) {
    return problem("RUN_MISMATCH", `a run of mode ${run.mode} that names a parent_run or names none`, null, run.parent_run);
  }
  if (run.key_run !== undefined && run.key_run !== run.run_id && run.parent_run === null) {
    return problem("RUN_MISMATCH", "the key_run of a run that continues no other", run.run_id, run.key_run);
  }
  return null;
}

function checkStep(scene, meta, args, where, report) {
  const { plan, run } = scene;
  if (meta.step_index >= plan.steps.length) return report(problem("PLAN_MISMATCH", "the plan has fewer steps", plan.steps.length, meta.step_index + 1));
  const step = plan.steps[meta.step_index];
  const stepVersion = step.skill_version ?? null;
  const wrong = firstDifference("PLAN_MISMATCH", [
    ["the step at this place of the plan", step.step_id, meta.step_id],
    ["the step's skill", step.skill_id, meta.skill_id],
    ["the step's skill version", stepVersion, meta.skill_version],
    ["the definition digest that the plan pins", pinnedDigest(plan, `${step.skill_id}@${stepVersion}`), meta.definition_digest],
  ]);
  if (wrong) return report(wrong);
  return report(argumentsProblem(step.parameters, args, run.mode, (path) => outputAt(path, scene, where)));
}

/** An event whose payload has a form of its own. */
function saidProblem(event, found, plan, run) {
  const ofSession = run === null || run.kind === "session";
  if (event.type === "accept_changed") {
    if (event.who === null || event.data === null) return problem("RUN_MISMATCH", "a changed skill was accepted, and nothing says by whom, or which");
    const wrong = found === null ? null : formProblem(found.value, ACCEPTED, "PAYLOAD_CONTENT");
    if (found === null || wrong !== null || plan === null) return wrong;
    return firstDifference("PLAN_MISMATCH", [["the definition that the plan pins", pinnedDigest(plan, found.value.skill), found.value.pinned]]);
  }
  if (!ofSession || event.data === null) return problem("RUN_MISMATCH", `an event of type ${event.type} in a run of a plan, or without saying what`);
  if (found === null) return null;
  if (event.type === "pinned") return formProblem(found.value, PINNED, "PAYLOAD_CONTENT");
  const wrong = formProblem(found.value, WENT_ON, "PAYLOAD_CONTENT");
  if (wrong) return wrong;
  const given = ["waited_ms", "open_ms", "status", "message"].filter((name) => own(found.value, name)).join();
  const wanted = { cancelled: "waited_ms,open_ms", waiting: "status,message", answered: "" }[found.value.why];
  return given === wanted ? null : problem("PAYLOAD_CONTENT", `a caller went on (${found.value.why}) with what is said of another way`);
}

const aborts = (plan, index) => (plan.steps[index]?.on_error ?? plan.context.on_error ?? "abort") === "abort";

/** The commitment in {"$commit": …}, by which a session's plan names a value. */
const commitmentIn = (value) => (isObject(value) && Object.keys(value).length === 1 && typeof value.$commit === "string" ? value.$commit : null);

/** What a session's requests say, in order, with and without the names of what they were made with. */
class CallsMade {
  plain = sha256();
  named = sha256();

  add({ meta, proposal }) {
    const made = [meta.step_id, meta.skill_id, meta.skill_version];
    this.plain.update(canonical(made));
    this.named.update(canonical([...made, proposal.args.$commit ?? null, meta.key ?? null]));
  }

  heldAgainst(plan) {
    const names = plan.steps.some((step) => commitmentIn(step.parameters) !== null);
    const ofPlan = sha256();
    for (const step of plan.steps) {
      const made = [step.step_id, step.skill_id, step.skill_version ?? null];
      ofPlan.update(canonical(names ? [...made, commitmentIn(step.parameters), commitmentIn(step.idempotency_key)] : made));
    }
    return [headOf(ofPlan), headOf(names ? this.named : this.plain)];
  }
}

/** Whether `copy` is a session's plan with the values that it names in the place of their names. */
function isWhole(copy, stored, valueOf) {
  if (!isObject(copy) || !Array.isArray(copy.steps) || copy.steps.length !== stored.steps.length) return false;
  if (!same({ ...copy, steps: [] }, { ...stored, steps: [] })) return false;
  return stored.steps.every((step, index) => same(copy.steps[index], wholeStep(step, valueOf)));
}

function wholeStep(step, valueOf) {
  let whole = step;
  const named = commitmentIn(step.parameters);
  const keyed = commitmentIn(step.idempotency_key);
  if (named !== null) {
    const found = valueOf(named);
    whole = { ...whole, parameters: found === null ? { $erased: named } : found.value };
  }
  if (keyed !== null) {
    const found = valueOf(keyed);
    whole = without(whole, "idempotency_key");
    if (found !== null) whole = { ...whole, idempotency_key: found.value };
  }
  return whole;
}

// -- a step's arguments, computed again: docs/spec/payloads.md, "References and secrets" ------------------------------

class NotKnown extends Error {} // an output that a reference leads to was erased, or left out
class LeadsNowhere extends Error {} // its step has no output, or not there

const REFERENCE = /\{\{([^{}]+)\}\}/;
const REDACTED = "[redacted]";
const SPACE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]*";
const AROUND = new RegExp(`^${SPACE}|(?<!${SPACE.slice(0, -1)})${SPACE}$`, "g");
const stripped = (spelled) => spelled.replace(AROUND, "");

/** What `step.path` leads to. A step id may hold dots: the longest that is known wins. */
function outputAt(reference, scene, where) {
  const parts = reference.split(".");
  let length = parts.length;
  while (length > 0 && !scene.outputs.has(parts.slice(0, length).join("."))) length -= 1;
  const commitment = length ? scene.outputs.get(parts.slice(0, length).join(".")) : null;
  if (commitment === null) throw new LeadsNowhere();
  const found = scene.payloads.value(commitment, where);
  if (found === null) throw new NotKnown();
  return parts.slice(length).reduce(below, found.value);
}

function below(value, part) {
  if (isObject(value) && own(value, part)) return value[part];
  if (Array.isArray(value) && /^[0-9]{1,15}$/.test(part) && Number(part) < value.length) return value[Number(part)];
  throw new LeadsNowhere();
}

function argumentsProblem(planned, recorded, mode, outputs) {
  if (recorded === null || !isObject(planned)) return null;
  const refers = hasReference(planned);
  if (!(refers ? ["live"] : ["live", "full_replay", "fork"]).includes(mode)) return null;
  let expected = planned;
  try {
    if (refers) expected = resolved(planned, outputs);
  } catch (error) {
    if (error instanceof NotKnown) return null;
    if (!(error instanceof LeadsNowhere)) throw error;
  }
  const place = firstOther(expected, recorded.value);
  if (place === null || firstOther(planned, recorded.value) === null) return null;
  return problem("ARGUMENTS_MISMATCH", `the arguments are not what the plan and the outputs of earlier steps come to, at ${place || "the top"}`);
}

function hasReference(value) {
  if (typeof value === "string") return REFERENCE.test(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasReference);
}

function resolved(value, outputs) {
  if (typeof value === "string") return resolvedText(value, outputs);
  if (Array.isArray(value)) return value.map((item) => resolved(item, outputs));
  // In the order of the keys, since the first reference that leads nowhere or to what is not there decides.
  return isObject(value) ? Object.fromEntries(Object.keys(value).sort().map((name) => [name, resolved(value[name], outputs)])) : value;
}

function resolvedText(spelled, outputs) {
  const whole = new RegExp(`^${REFERENCE.source}$`).exec(stripped(spelled));
  if (whole !== null) return inert(outputs(stripped(whole[1])));
  return spelled.replace(new RegExp(REFERENCE, "g"), (_, inside) => {
    const found = outputs(stripped(inside));
    const form = canonical(found);
    if (form.includes('{"$sealed":')) throw new NotKnown();
    return typeof found === "string" ? found : form;
  });
}

const isEncrypted = (value) => isObject(value) && Object.keys(value).length === 1 && typeof value.$sealed === "string";

/** A value from outside: its keys that begin with `$` have one more; what is encrypted stays as it is. */
function inert(value) {
  if (Array.isArray(value)) return value.map(inert);
  if (!isObject(value) || isEncrypted(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name.startsWith("$") ? `$${name}` : name, inert(item)]));
}

/** The place of the first value on record that cannot come from the expected one; null where there is none. */
function firstOther(expected, recorded, place = "") {
  if (isEncrypted(recorded) || isEncrypted(expected) || recorded === REDACTED) return null;
  if (isObject(expected) && isObject(recorded)) {
    if (Object.keys(recorded).some((name) => name.includes(REDACTED))) return null;
    if (!same(Object.keys(expected).sort(), Object.keys(recorded).sort())) return place;
  } else if (Array.isArray(expected) && Array.isArray(recorded)) {
    if (expected.length !== recorded.length) return place;
  } else return sameScalar(expected, recorded) ? null : place;
  for (const name of Object.keys(expected)) {
    const other = firstOther(expected[name], recorded[name], `${place}/${name}`);
    if (other !== null) return other;
  }
  return null;
}

function sameScalar(expected, recorded) {
  if (typeof expected !== "string" || typeof recorded !== "string" || !recorded.includes(REDACTED)) return canonical(expected) === canonical(recorded);
  // The pieces that redaction left stand in the text in order, the first at its beginning and the last at its end.
  const pieces = recorded.split(REDACTED);
  const last = pieces.pop();
  const first = pieces.shift();
  if (!expected.startsWith(first) || !expected.slice(first.length).endsWith(last)) return false;
  let from = first.length;
  for (const piece of pieces) {
    const found = expected.indexOf(piece, from);
    if (found < 0 || found + piece.length > expected.length - last.length) return false;
    from = found + piece.length;
  }
  return true;
}

// -- a run against its own rules: docs/spec/verification.md, "Rules" --------------------------------------------------

const WEEK_MS = 604_800_000;

/** Takes attempts and decisions in order; retries wait for the plan, which a session has at its end. */
class Rules {
  retried = [];
  latest = new Map(); // the last time in each trace that has not ended
  back = 0;
  firstBack = "";

  attempt(found, trace, where) {
    this.time(found.trace_id, where, found.started_at, found.ended_at);
    if (found.kind !== "attempt" || found.facts === null || found.code === null) return null;
    if (found.backoff_ms !== null && trace.stepId !== null) this.retried.push({ found, stepId: trace.stepId, index: trace.index, where });
    return codeProblem(found);
  }

  decision({ meta, decision }, run, plan, spent) {
    const beyond = meta.limit_exact !== null && meta.spent_exact !== null && meta.required_exact !== null &&
      BigInt(meta.spent_exact) + BigInt(meta.required_exact) > BigInt(meta.limit_exact);
    if (meta.gate === "budget" && decision === "DENY") return beyond ? null : problem("BUDGET_MISMATCH", "the budget refused what it had money for");
    const cents = plan?.context.budget_cents ?? plan?.context.budget?.per_run_cents ?? null;
    if (meta.gate !== "supervisor" || cents === null) return null;
    const pairs = [["the limit of the run", String(BigInt(cents) * 10_000_000_000n), meta.limit_exact]];
    if (run.kind === "plan" && run.mode === "live") pairs.push(["what the run had spent", String(spent), meta.spent_exact]);
    if (decision === "APPROVE" && plan.context.budget?.mode !== "soft") pairs.push(["an approval beyond the budget", false, beyond]);
    return firstDifference("BUDGET_MISMATCH", pairs);
  }

  /** Times of one trace, in order. A clock can be set back, so that is told and breaks nothing. */
  time(traceId, where, ...times) {
    for (const ts of times.filter((each) => each !== null)) {
      const before = this.latest.get(traceId) ?? "";
      if (ts < before) {
        this.back += 1;
        this.firstBack ||= `from ${before} to ${ts} at commit ${where.commit}`;
      }
      this.latest.set(traceId, ts);
    }
  }

  end(run, plan, findings) {
    for (const retried of run === null || plan === null ? [] : this.retried) {
      if (retried.index >= plan.steps.length) continue;
      const wrong = retryProblem(retried, policyOf(plan, retried.index), run);
      if (wrong) findings.add(wrong, retried.where);
    }
    if (this.back) findings.note(`times go back ${this.back} times, first ${this.firstBack}: a clock was set back, or they were written afterwards`);
  }
}

/** A code against the facts that it stands for, as far as they leave no choice. */
function codeProblem({ facts, code: named }) {
  const good = named === "OK" || named.startsWith("OK_");
  const failed = facts.exceptions.length > 0 || (facts.http_status !== null && !(facts.http_status >= 200 && facts.http_status < 300));
  if (failed && good) return problem("CODE_MISMATCH", "a success, and the facts are those of a failure", null, named);
  if (!failed && !good && facts.finish_reason === null) return problem("CODE_MISMATCH", "a failure, and the facts are those of a success", "OK", named);
  return null;
}

/** The first that names a field decides it: the step, the plan, what is pinned for the skill. */
function policyOf(plan, index) {
  const step = plan.steps[index];
  const pinned = plan.context.pins.retry ?? {};
  const named = `${step.skill_id}@${step.skill_version ?? null}`;
  const ofSkill = own(pinned, named) ? pinned[named] : own(pinned, "default") ? pinned.default : {};
  return { ...ofSkill, ...(plan.context.retry ?? {}), ...(step.retry ?? {}) };
}

function retryProblem(retried, policy, run) {
  const { found } = retried;
  if (found.facts.http_status === 409 || found.code === "ERR_HTTP_409") return null;
  if (policy.max_retries !== undefined && found.attempt >= policy.max_retries) {
    return problem("RETRY_MISMATCH", "the policy allows fewer retries", policy.max_retries, found.attempt + 1);
  }
  if (policy.retryable_codes !== undefined && !policy.retryable_codes.includes(found.code)) {
    return problem("RETRY_MISMATCH", "the policy does not retry this code", null, found.code);
  }
  const bounds = waits(retried, policy, run);
  if (bounds === null) return null;
  const asked = BigInt(Math.min(found.retry_after_ms ?? 0, 60_000));
  const [least, longest] = bounds.map((bound) => (bound > asked ? bound : asked));
  const wait = BigInt(found.backoff_ms);
  return least <= wait && wait <= longest ? null : problem("RETRY_MISMATCH", "the wait that the policy comes to, in ms", `${least} to ${longest}`, found.backoff_ms);
}

/** The shortest and the longest wait; one and the same where the jitter is known too. */
function waits({ found, stepId: named }, policy, run) {
  const { backoff_base_ms: base, backoff_multiplier: times, max_backoff_ms: most } = policy;
  const jitter = policy.jitter_enabled === true ? policy.jitter_max_ms : 0;
  if ([base, times, most, jitter].includes(undefined)) return null;
  const grown = grownWait(found.attempt, base, times, most ?? WEEK_MS);
  let bounds = [grown, grown + BigInt(Math.max(jitter - 1, 0))];
  if (jitter && run.mode === "live" && run.parent_run === null) {
    const drawn = grown + keyedRandom(jitter, "reenact.backoff", run.run_id, named, found.attempt);
    bounds = [drawn, drawn];
  }
  return most === null ? bounds : bounds.map((bound) => (bound < BigInt(most) ? bound : BigInt(most)));
}

/** base · multiplier^attempt, exactly, rounded down; `most` where it is far beyond that, and need not be computed. */
function grownWait(attempt, base, times, most) {
  if (base === 0 || attempt === 0 || times === 1) return BigInt(base);
  if (attempt > (Math.log(most + 1) - Math.log(base) + 2) / Math.log(times)) return BigInt(most);
  const [whole, fraction = ""] = String(times).split(".");
  const power = BigInt(attempt);
  return (BigInt(base) * BigInt(whole + fraction) ** power) / 10n ** (BigInt(fraction.length) * power);
}

/** A number in [0, n) that belongs to its key: docs/spec/verification.md, "Rules". */
function keyedRandom(n, ...parts) {
  const key = sha256();
  for (const part of parts) {
    const data = Buffer.from(String(part));
    key.update(`${typeof part === "number" ? "i" : "s"}${data.length}:`).update(data);
  }
  const secret = key.digest();
  const size = Math.ceil(n.toString(2).length / 8);
  const limit = 256 ** size - (256 ** size % n);
  let stream = Buffer.alloc(0);
  for (let counter = 0n, at = 0; ; at += size) {
    while (stream.length < at + size) {
      const block = Buffer.alloc(8);
      block.writeBigUInt64BE(counter);
      counter += 1n;
      stream = Buffer.concat([stream, createHmac("sha256", secret).update(block).digest()]);
    }
    const draw = stream.readUIntBE(at, size);
    if (draw < limit) return BigInt(draw % n);
  }
}

// -- the journal: docs/spec/run_chain.md ------------------------------------------------------------------------------

const RANKS = { commit: 0, run: 1, event: 2, vote: 3, attempt: 4, entry: 4, checkpoint: 5, run_checkpoint: 6, seal: 7 };
const ABOUT_A_CALL = ["resolve", "synthesized", "late", "went_on"];

/** Where in a commit a line may stand. */
class CommitOrder {
  lines = 0;
  rank = 0;
  kind = "commit";
  eventTs = "";
  current = null; // the trace whose lines stand together here
  units = new Set();
  index = -1;
  checkpointIndex = -1;

  place(kind) {
    const rank = RANKS[kind];
    const before = this.kind;
    const misplaced = rank < this.rank || (["run", "run_checkpoint", "seal"].includes(kind) && kind === before);
    Object.assign(this, { rank: Math.max(rank, this.rank), kind, lines: this.lines + 1 });
    return misplaced ? problem("LINE_ORDER", `a line of kind ${kind} stands after one of kind ${before}`) : null;
  }

  event(ts) {
    const before = this.eventTs;
    this.eventTs = ts;
    return ts < before ? problem("LINE_ORDER", "the events of a commit are not in the order of their times") : null;
  }

  /** One that begins here has the highest index so far. */
  unit(traceId, index) {
    if (traceId === this.current) return null;
    this.current = traceId;
    if (this.units.has(traceId)) return problem("LINE_ORDER", "the lines of one trace do not stand together");
    this.units.add(traceId);
    const before = this.index;
    this.index = index;
    return index <= before ? problem("LINE_ORDER", "traces do not stand in the order of their steps") : null;
  }

  checkpoint(index) {
    const before = this.checkpointIndex;
    this.checkpointIndex = index;
    return index <= before ? problem("LINE_ORDER", "checkpoints do not stand in the order of their steps") : null;
  }
}

/** Takes a run's lines in order. */
class Journal {
  run = null;
  runId = null;
  seal = null;
  sealIsSound = false;
  plan = null;
  salt = null;
  lines = 0;
  commits = 0;
  attempts = 0;
  traces = new Map();
  votes = new Map();
  runCheckpoints = new Map(); // digest → commit
  order = null;
  body = sha256();
  offset = 0;
  nextOffset = 0;
  open = new Map();
  outputs = new Map(); // by step, in a plan: what later ones refer to
  turns = 0;
  cancelled = false;
  notCompleted = [];
  assembled = 0; // the commit in which a session named its plan
  spent = 0n;
  attemptTree = new Tree();
  ended = new Tree(); // the first traces, as long as all of them have ended; the rest waits in `later`
  later = [];
  calls = new CallsMade();
  rules = new Rules();

  constructor(payloads, ring, findings) {
    Object.assign(this, { payloads, ring, findings });
  }

  get head() {
    return this.lines ? headOf(this.body) : null;
  }

  get isForeign() {
    return this.run?.kind === "trace";
  }

  where(trace = null, traceId = null) {
    return {
      file: "journal.jsonl", commit: this.commits || null, line: this.lines, offset: this.offset,
      trace_id: trace?.traceId ?? traceId, step_id: trace?.stepId ?? null,
    };
  }

  report(found, trace = null) {
    if (found) this.findings.add(found, this.where(trace));
  }

  /** Take the next line with its newline; false when reading must stop. */
  line(raw) {
    this.lines += 1;
    this.offset = this.nextOffset;
    this.nextOffset += raw.length;
    if (raw.length > MAX_LINE) {
      this.report(problem("LINE_TOO_LONG", `a line of more than ${MAX_LINE} bytes`));
      return false;
    }
    const begins = raw.subarray(0, 16).equals(Buffer.from('{"kind":"commit"'));
    const previous = this.commits ? headOf(this.body) : ZERO;
    if (begins) {
      this.closeCommit();
      this.body = sha256();
      this.order = null;
    }
    const read = this.readLine(raw);
    if (read.code) {
      this.body.update(raw);
      if (begins) {
        this.commits += 1;
        this.order = new CommitOrder();
      } else if (this.order !== null) this.order.lines += 1;
      this.report(read);
    } else {
      if (this.seal !== null) this.report(problem("LINE_ORDER", "a line stands after the seal"));
      if (begins) this.takeCommit(read.value, previous);
      else this.take(read.value);
      this.body.update(raw);
    }
    return this.findings.total <= GIVE_UP_AFTER;
  }

  readLine(raw) {
    if (raw.at(-1) !== 10) return problem("EVIDENCE_TORN_TAIL", "the last line does not end with a newline: its end was cut");
    const read = readCanonical(raw.subarray(0, -1), "the line");
    if (read.code) return read;
    const foreign = this.isForeign && isObject(read.value) && read.value.kind === "entry";
    return formProblem(read.value, foreign ? FOREIGN_ENTRY : LINE, "LINE_MALFORMED") ?? read;
  }

  takeCommit(commit, previous) {
    const expected = this.commits + 1;
    this.commits = commit.n;
    this.order = new CommitOrder();
    this.runId ??= commit.run_id;
    this.payloads.runId ??= commit.run_id;
    if (commit.n !== expected) this.report(problem("COMMIT_NUMBER", "the number of the commit", expected, commit.n));
    else if (commit.prev !== previous) {
      this.report(problem("COMMIT_PREV", `prev: the bytes of commit ${commit.n - 1} are not those that commit ${commit.n} names`, previous, commit.prev));
    }
    if (commit.run_id !== this.runId) this.report(problem("RUN_MISMATCH", "the commit's run_id", this.runId, commit.run_id));
  }

  closeCommit() {
    if (this.order?.lines === 0) this.report(problem("COMMIT_EMPTY", `commit ${this.commits} holds nothing`));
    this.report(this.ring.headProblem(this.runId, this.commits, () => headOf(this.body)));
  }

  take(value) {
    const { kind } = value;
    if (this.order === null) {
      this.report(problem("COMMIT_MISPLACED", "a line stands before the first commit line"));
      this.order = new CommitOrder();
    }
    if (this.run === null && kind !== "run" && this.lines === 2) this.report(problem("RUN_MISPLACED", "the run record is not the first line of the first commit"));
    this.report(this.order.place(kind));
    if (kind === "entry") this.takeEntry(value);
    else if (kind === "attempt") this.takeAttempt(value.attempt);
    else if (kind === "run") this.takeRun(value.run);
    else if (kind === "event") this.takeEvent(value.event);
    else if (kind === "vote") this.takeVote(value.vote);
    else if (kind === "checkpoint") this.takeCheckpoint(value.checkpoint);
    else if (kind === "run_checkpoint") this.takeRunCheckpoint(value.run_checkpoint);
    else this.takeSeal(value.seal);
  }

  takeRun(run) {
    if (this.run !== null || this.commits !== 1) return this.report(problem("RUN_MISPLACED", "a second run record, or one outside the first commit"));
    this.run = run;
    const planned = run.kind === "plan";
    let wrong = firstDifference("RUN_MISMATCH", [["the run record's run_id", this.runId, run.run_id]]);
    const named = [run.plan_hash, run.plan, run.steps_planned];
    if (named.some((each) => (each !== null) !== planned) || !(planned || run.plan_id === run.run_id)) {
      wrong = problem("PLAN_MISMATCH", `a run of kind ${run.kind} names its plan as another kind would`);
    }
    this.report(wrong ?? parentProblem(run));
    if (run.plan === null) return undefined;
    this.report(this.loadPlan(run.plan));
    if (this.plan !== null) this.report(runPlanProblem(this.plan, run));
    return undefined;
  }

  loadPlan(commitment) {
    const found = this.payloads.value(commitment, this.where());
    if (found === null) return null;
    const wrong = planProblem(found.value);
    if (wrong) return wrong;
    this.plan = found.value;
    this.salt = Buffer.from(this.plan.context.pins.salt, "hex");
    return null;
  }

  takeEvent(event) {
    this.report(this.order.event(event.ts));
    if (event.type === "turn" && this.turns === 0 && event.data !== null) {
      const opened = this.payloads.value(event.data, this.where());
      // What a session knew when it began has the salt of the plan that it comes to.
      if (opened !== null && planProblem(opened.value) === null) this.salt = Buffer.from(opened.value.context.pins.salt, "hex");
    }
    if (event.type === "turn") this.turns += 1;
    if (event.type === "cancel") this.cancelled = true;
    const trace = this.traces.get(event.trace_id) ?? null;
    if (["resolve", "late"].includes(event.type) && trace !== null) trace.overruled = true;
    const where = this.where(trace, event.trace_id);
    if (ABOUT_A_CALL.includes(event.type) && trace === null) {
      this.findings.add(problem("RUN_MISMATCH", `an event of type ${event.type} is about no call that the run has begun`), where);
    }
    this.payloads.see(event.reason, where);
    this.payloads.see(event.data, where);
    if (["accept_changed", "went_on", "pinned"].includes(event.type)) {
      this.report(saidProblem(event, this.payloads.value(event.data, where), this.plan, this.run));
    }
    if (event.type === "finish" && event.data !== null && this.run?.kind === "session") {
      this.assembled = this.commits;
      this.report(this.loadPlan(event.data));
    }
  }

  takeVote(vote) {
    const trace = this.traces.get(vote.trace_id) ?? null;
    this.votes.set(vote.digest, vote);
    this.payloads.see(vote.reason, this.where(trace, vote.trace_id));
    if (trace?.damaged) return;
    this.report(firstDifference("VOTE_MISMATCH", [
      ["the digest of a vote", digest(without(vote, "digest")), vote.digest],
      ["the state of the trace that is voted on", "PENDING", trace?.chain.state ?? "unknown"],
      ["the vote's action_request_digest", trace?.request?._digest ?? null, vote.action_request_digest],
    ]), trace);
  }

  traceOf(traceId) {
    let trace = this.traces.get(traceId);
    if (trace === undefined) {
      trace = this.isForeign ? new ForeignTrace(traceId, this.traces.size) : new Trace(traceId, this.traces.size);
      this.traces.set(traceId, trace);
      this.open.set(traceId, trace);
      this.later.push(trace);
    }
    return trace;
  }

  takeEntry(value) {
    const { entry, artifact: found } = value;
    const trace = this.traceOf(entry.trace_id);
    const opens = entry.sequence_number === 1;
    this.report(this.order.unit(trace.traceId, trace.index), trace);
    if (this.run === null) { // already told; without it nothing but the chain can be checked
      this.report(trace.chain.append(entry), trace);
      trace.damaged = true;
      return;
    }
    if (opens && this.run.kind === "plan" && this.open.size > 1) this.report(problem("LINE_ORDER", "a step is requested while an earlier one has not ended"), trace);
    const { run, plan, payloads, ring, votes, outputs, turns, salt } = this;
    const scene = { run, plan, payloads, ring, votes, outputs, turns, salt, where: this.where(trace) };
    let sound = true;
    trace.entry(value, scene, (wrong) => {
      if (!wrong) return;
      sound = false;
      this.report(wrong, trace);
    });
    this.rules.time(trace.traceId, scene.where, entry.ts);
    const kind = kindOf(found);
    if (!this.isForeign) {
      if (opens && kind === "action_request") this.calls.add(found);
      else if (kind === "supervisor_decision" && sound && !trace.damaged) this.report(this.rules.decision(found, run, plan, this.spent), trace);
    }
    if (trace.chain.terminal) this.endTrace(trace, found);
  }

  endTrace(trace, last) {
    this.open.delete(trace.traceId);
    this.rules.latest.delete(trace.traceId);
    const { state: ended } = trace.chain;
    const output = kindOf(last) === "tool_effect" && last.document_hashes?.length ? last.document_hashes[0].hash : null;
    if (trace.stepId !== null && this.plan !== null) this.outputs.set(trace.stepId, ended === "COMPLETED" ? output : null);
    const isDuplicate = !this.isForeign && kindOf(last) === "supervisor_decision" && last.meta.code === "DENIED_DUPLICATE";
    if (ended !== "COMPLETED" && !isDuplicate) this.notCompleted.push(trace.index);
    let done = 0;
    while (done < this.later.length && this.later[done].chain.terminal && !this.later[done].damaged) {
      this.ended.append(this.later[done].leaf());
      done += 1;
    }
    if (done) this.later.splice(0, done);
  }

  takeAttempt(found) {
    this.attempts += 1;
    this.spent += BigInt(found.cost_exact);
    this.attemptTree.append(canonical({ digest: found.digest, ordinal: found.ordinal, trace_id: found.trace_id }));
    const trace = this.traces.get(found.trace_id);
    if (trace === undefined) {
      return this.findings.add(problem("ATTEMPT_CHAIN", "an attempt of a trace that has no entry"), this.where(null, found.trace_id));
    }
    this.report(this.order.unit(trace.traceId, trace.index), trace);
    trace.attempt(found, (wrong) => this.report(wrong, trace));
    if (!trace.damaged) this.report(this.rules.attempt(found, trace, this.where(trace)), trace);
    this.payloads.see(found.response, this.where(trace));
    const told = found.kind === "lost" ? this.payloads.value(found.response, this.where(trace)) : null;
    if (told !== null) this.report(trace.lossProblem(told.value), trace);
    return undefined;
  }

  takeCheckpoint(found) {
    const trace = this.traces.get(found.trace_id);
    if (trace === undefined || this.run === null) {
      return this.findings.add(problem("STATE_CHECKSUM_MISMATCH", "a checkpoint of a trace that has no entry"), this.where(null, found.trace_id));
    }
    this.report(this.order.checkpoint(trace.index), trace);
    return this.report(trace.checkpoint(found, this.run.plan_id), trace);
  }

  root(terminalOnly = false) {
    return this.ended.root(this.later.filter((trace) => trace.chain.terminal || !terminalOnly).map((trace) => trace.leaf()));
  }

  takeRunCheckpoint(found) {
    this.runCheckpoints.set(found.digest, this.commits);
    this.report(firstDifference("STATE_CHECKSUM_MISMATCH", [
      ["the digest of a run checkpoint", digest(without(found, "digest")), found.digest],
      ["the run checkpoint's run_id", this.runId, found.run_id],
      ["the run checkpoint's commits", this.commits, found.commits],
      ["the run checkpoint's run_head", this.head, found.run_head],
      ["the run checkpoint's root", this.root(true), found.root],
      ["the run checkpoint's open traces", [...this.open.keys()], found.open],
      ["the run checkpoint's spent_exact", String(this.spent), found.spent_exact],
      ["the run checkpoint's reserved_exact", this.open.size ? found.reserved_exact : "0", found.reserved_exact],
    ]));
  }

  takeSeal(seal) {
    this.seal = seal;
    const recomputed = digest(without(seal, "seal_digest"));
    if (seal.seal_digest !== recomputed) this.report(problem("SEAL_DIGEST", "seal_digest", recomputed, seal.seal_digest));
    if (seal.run_head !== this.head) this.report(problem("SEAL_HEAD", "run_head", this.head, seal.run_head));
    this.sealIsSound = seal.seal_digest === recomputed && seal.run_head === this.head;
    if (seal.run_id !== this.runId) this.report(problem("RUN_MISMATCH", "the seal's run_id", this.runId, seal.run_id));
    const session = this.run !== null && this.run.kind !== "plan";
    this.report(firstDifference("SEAL_COUNT", [
      ["commits", this.commits, seal.commits],
      ["traces", this.traces.size, seal.traces],
      ["steps_planned", session ? this.traces.size : (this.run?.steps_planned ?? null), seal.steps_planned],
    ]));
    this.report(firstDifference("SEAL_ROOT", [
      ["root", this.root(), seal.root],
      ["attempts_root", this.attemptTree.root(), seal.attempts_root],
    ]));
    this.checkStatus(seal, session);
    this.report(this.sealPlanProblem(seal, session));
  }

  checkStatus(seal, session) {
    for (const trace of this.open.values()) {
      if (!trace.damaged && seal.status !== "cancelled") this.report(problem("SEAL_STATUS", `the run is sealed while a trace is ${trace.chain.state}`), trace);
    }
    if (seal.status === "completed" && !session && seal.traces !== seal.steps_planned) {
      this.report(problem("SEAL_STATUS", "the traces of a completed run", seal.steps_planned, seal.traces));
    }
    const told = seal.status !== "cancelled" && this.open.size > 0;
    if (told || this.run === null || [...this.traces.values()].some((trace) => trace.damaged)) return;
    const expected = this.expectedStatus(session);
    if (!expected.includes(seal.status)) this.report(problem("SEAL_STATUS", "the status does not follow from how the traces ended", expected.join(" or "), seal.status));
  }

  expectedStatus(session) {
    if (this.cancelled) return ["cancelled"];
    if (this.isForeign) return [this.notCompleted.length ? "failed" : "completed"];
    if (session) return ["completed"];
    if (this.plan === null && this.notCompleted.length) return ["completed", "failed"]; // only the plan says which steps end the run
    return [this.plan !== null && this.notCompleted.some((index) => aborts(this.plan, index)) ? "failed" : "completed"];
  }

  sealPlanProblem(seal, session) {
    if (!session || this.isForeign) return firstDifference("PLAN_MISMATCH", [["the seal's plan_hash", this.run?.plan_hash ?? null, seal.plan_hash]]);
    if (this.assembled !== this.commits) return problem("PLAN_MISMATCH", "the session is sealed, and no finish event with the seal names its plan");
    if (this.plan === null) return null;
    return firstDifference("PLAN_MISMATCH", [
      ["the seal's plan_hash", planHashOf(this.plan), seal.plan_hash],
      ["the assembled plan's plan_id", this.run.run_id, this.plan.plan_id],
      ["the calls of the assembled plan", ...this.calls.heldAgainst(this.plan)],
    ]);
  }

  end() {
    if (!this.lines) return this.findings.add(problem("JOURNAL_EMPTY", "the journal has no line"), { file: "journal.jsonl" });
    this.closeCommit();
    return this.rules.end(this.run, this.plan, this.findings);
  }
}

// -- the views: docs/spec/replay_jsonl.md, "What Reenact writes" ------------------------------------------------------

const GONE = { erased: { $erased: true }, archived: { $archived: true } };
const MOST_ITERATIONS = 255;
const BY = { late: "late", synthesized: "synthesized", resolve: "person" };
const hashed = (value) => `sha256:${digest(value)}`;
const asObject = (value) => (isObject(value) ? value : {});
const asList = (value) => (Array.isArray(value) ? value : []);
const asNumber = (value) => (typeof value === "number" ? value : null);
const isWholeNumber = (value) => Number.isSafeInteger(value) || typeof value === "boolean";

/** A recorded value as it stands in a view: nothing of a secret, nor what it was turned to. */
function marked(value) {
  if (Array.isArray(value)) return value.map(marked);
  if (!isObject(value)) return value === REDACTED ? { $redacted: true } : value;
  if (Object.keys(value).length === 1 && own(value, "$sealed")) return { $redacted: true };
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, marked(item)]));
}

function cut(whole, most) {
  if (whole.length <= most) return whole;
  const characters = Array.from(whole);
  return characters.length <= most ? whole : `${characters.slice(0, most / 2).join("")}...${characters.slice(-most / 2).join("")}`;
}

/** The events of a run, made again from the lines of its journal and the values that they name. */
class Views {
  run = null;
  plan = {};
  planGone = null;
  context = {};
  open = new Map();
  requested = 0;
  confidence = null;
  timedOut = false;
  totals = { calls: 0, latency: 0, cents: 0, exact: 0n, tokens: 0 };
  commands = [];
  codes = [];
  delta = 0;
  passed = null;
  seal = null;
  made = [];
  hash = sha256();

  /** `archived` are the commitments whose last record says so. */
  constructor(lines, source, archived) {
    Object.assign(this, { lines, source, archived });
  }

  /** The lines of REPLAY.jsonl, with their newlines. */
  *replay() {
    for (const commit of this.commits()) {
      for (const value of commit) {
        for (const event of this.eventsOf(value, commit)) {
          const written = `${canonical(event)}\n`;
          this.hash.update(written);
          yield written;
        }
      }
    }
  }

  *commits() {
    let commit = [];
    for (const raw of this.lines) {
      const value = JSON.parse(raw.toString("utf8"));
      if (value.kind === "commit" && commit.length) {
        yield commit;
        commit = [];
      }
      commit.push(value);
    }
    if (commit.length) yield commit;
  }

  eventsOf(value, commit) {
    if (value.kind === "run") return this.begin(value.run, commit);
    if (value.kind === "event") return this.event(value.event);
    if (value.kind === "attempt") return this.attempt(value.attempt);
    if (value.kind === "entry") return this.entry(value.entry, value.artifact);
    return value.kind === "seal" ? this.end(value.seal) : [];
  }

  valueOf(commitment) {
    const envelope = this.source(commitment);
    const found = envelope === null ? null : openEnvelope(envelope, commitment);
    return found === null || found.code ? null : found;
  }

  /** What became of a value that is not there. */
  wordFor(commitment) {
    return this.archived.has(commitment) ? "archived" : "erased";
  }

  /** [the object behind a commitment, what became of it where it is not there]. */
  objectOf(commitment) {
    if (commitment === null) return [{}, null];
    const found = this.valueOf(commitment);
    return found === null ? [{}, this.wordFor(commitment)] : [asObject(found.value), null];
  }

  markedOf(commitment) {
    const found = this.valueOf(commitment);
    return found === null ? GONE[this.wordFor(commitment)] : marked(found.value);
  }

  begin(run, commit) {
    if (run.kind === "trace") return [];
    this.run = run;
    const opening = commit.find(({ kind }) => kind === "event")?.event ?? { data: null };
    [this.plan, this.planGone] = this.objectOf(run.kind === "plan" ? run.plan : opening.data);
    const { plan } = this;
    this.context = asObject(plan.context);
    const session = asObject(plan.session).id ?? null;
    const { started_at: t, agent_id, mode, plan_id } = run;
    const start = { event: "SessionStart", t, session_id: run.run_id, policy_version: this.policyVersion, issue_number: this.issueNumber };
    const events = [
      { event: "ReplayHeader", producer: `reenact@${run.reenact_version}`, created_at: t, replay_version: 1 },
      { ...start, agent_id, mode, plan_id, ...(session === null ? {} : { session }) },
    ];
    if (run.kind === "plan") events.push({ event: "PlanStart", t, plan_hash: run.plan_hash, step_count: run.steps_planned });
    return events;
  }

  get policyVersion() {
    return this.planGone ?? (typeof this.context.policy_version === "string" ? this.context.policy_version : "unversioned");
  }

  get issueNumber() {
    return isWholeNumber(this.context.issue_number) ? this.context.issue_number : null;
  }

  get finalConfidence() {
    return this.confidence ?? asNumber(this.context.confidence);
  }

  end(seal) {
    if (this.run === null) return [];
    this.seal = seal;
    const t = seal.sealed_at;
    const events = [];
    if (this.run.kind === "session") events.push({ event: "PlanStart", t, plan_hash: seal.plan_hash, step_count: seal.steps_planned });
    else {
      for (const step of asList(this.plan.steps).slice(this.requested)) {
        events.push({ event: "StepComplete", t, step_id: String(asObject(step).step_id), status: "Skipped", iterations: 0 });
      }
    }
    const stopped = this.timedOut ? "Timeout" : "Cancelled";
    events.push({
      event: "SessionEnd", t, status: { completed: "Success", failed: "Failed" }[seal.status] ?? stopped,
      confidence: this.finalConfidence ?? 0, total_tool_calls: this.totals.calls, total_latency_ms: this.totals.latency,
      seal_digest: seal.seal_digest,
    });
    return events;
  }

  event(event) {
    const called = this.open.get(event.trace_id);
    if (called !== undefined && own(BY, event.type)) Object.assign(called, { by: BY[event.type], saidAt: called.made });
    else if (event.type === "cancel") this.timedOut = event.who === null && own(this.objectOf(event.data)[0], "time_limit_ms");
    else if (event.type === "finish") this.confidence = asNumber(this.objectOf(event.reason)[0].confidence);
    else if (event.type === "verify") {
      const [found, gone] = this.objectOf(event.data);
      if (!own(found, "schema")) return [this.verification(event.ts, marked(found), gone)];
    }
    return [];
  }

  verification(t, found, gone) {
    const commands = asList(found.commands).map((each) => (typeof each === "string" ? each : REDACTED));
    const codes = asList(found.exit_codes).filter(isWholeNumber);
    const delta = isWholeNumber(found.verification_delta) ? found.verification_delta : 0;
    this.commands.push(...commands);
    this.codes.push(...codes);
    this.delta += Number(delta);
    this.passed = codes.filter((each) => Number(each) === 0).length;
    const more = Object.fromEntries(["lane", "outputs"].filter((name) => own(found, name)).map((name) => [name, found[name]]));
    return { event: "Verification", t, commands, exit_codes: codes, verification_delta: delta, ...(gone === null ? more : { [gone]: true }) };
  }

  entry(entry, found) {
    if (this.run === null) return [];
    if (entry.artifact_type === "action_request") return this.called(entry, found);
    if (entry.artifact_type === "supervisor_decision" && found.decision === "DENY") return this.denied(entry, found);
    return entry.artifact_type === "tool_effect" ? this.effect(entry, found) : [];
  }

  called(entry, { meta, proposal, ts }) {
    const params = this.markedOf(proposal.args.$commit);
    const ofParams = hashed(params);
    this.open.set(entry.trace_id, {
      stepId: meta.step_id, tool: meta.skill_id, ofParams, made: 0, took: 0, served: false, sideEffects: [], by: null, saidAt: 0,
    });
    this.requested += 1;
    this.totals.calls += 1;
    return [{
      event: "ToolCall", t: ts, id: entry.trace_id, tool: meta.skill_id, params, params_hash: ofParams, step_id: meta.step_id,
      entry_digest: entry.entry_digest, tool_version: meta.skill_version, turn: meta.turn,
      ...(meta.lane === undefined ? {} : { lane: meta.lane }),
    }];
  }

  attempt(found) {
    const called = this.open.get(found.trace_id);
    if (called === undefined) return [];
    called.served = found.kind === "served";
    if (found.kind === "attempt") {
      called.made += 1;
      called.took = Math.max(0, Date.parse(found.ended_at) - Date.parse(found.started_at));
    }
    called.sideEffects.push(...found.side_effects.map(({ target, type }) => ({ target, type })));
    const usage = found.facts?.usage ?? {};
    this.totals.tokens += (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
    return [];
  }

  denied(entry, { meta, ts }) {
    const [details, gone] = this.objectOf(meta.details);
    const message = gone === null ? marked(details.message ?? null) : GONE[gone];
    const skipped = meta.code === "DENIED_DUPLICATE";
    const result = { content: null, error: { code: meta.code, message }, success: false };
    const extra = { code: meta.code, decision: "DENY", gate: meta.gate };
    const utility = meta.step_utility === undefined ? (skipped ? 0 : -0.4) : Number(meta.step_utility);
    return [this.result(entry, ts, result, utility, 0, extra), this.complete(entry, ts, skipped ? "Skipped" : "Failed")];
  }

  effect(entry, { meta, ts, document_hashes: [output, told] }) {
    const called = this.open.get(entry.trace_id);
    const [outcome, gone] = this.objectOf(told.hash);
    const good = meta.status === "success" || meta.status === "partial";
    const error = good ? null : { code: meta.code, message: gone === null ? marked(outcome.message ?? null) : GONE[gone] };
    const result = { content: this.markedOf(output.hash), error, success: good };
    const extra = { attempt: Math.max(0, called.made - 1), code: meta.code, cost_exact: meta.cost_exact };
    const by = called.served ? "key" : called.by !== "person" || called.saidAt === called.made ? called.by : null;
    if (by !== null) extra.by = by;
    const took = outcome.latency_ms ?? meta.latency_ms;
    const latency = isWholeNumber(took) ? took : called.took;
    const utility = meta.step_utility === undefined ? (good ? 0.2 : -0.4) : Number(meta.step_utility);
    const event = this.result(entry, ts, result, utility, latency, extra);
    this.totals.cents += meta.cost_cents;
    this.totals.exact += BigInt(meta.cost_exact);
    const failed = meta.retries_used_up ? "MaxIterationsReached" : "Failed";
    return [event, this.complete(entry, ts, good ? "Success" : failed)];
  }

  result(entry, t, result, utility, latency, extra) {
    const called = this.open.get(entry.trace_id);
    const { content } = result;
    const ofOutput = hashed(result);
    this.totals.latency += latency;
    const both = { id: entry.trace_id, output_hash: ofOutput, step_utility: utility, latency_ms: latency };
    this.made.push(canonical({ ...both, tool: called.tool, params_hash: called.ofParams, side_effects: called.sideEffects }));
    const ended = isObject(content) ? content.exit_code : null;
    const preview = content === null ? {} : { output_preview: cut(typeof content === "string" ? content : canonical(content), 2000) };
    const exit_code = Number.isSafeInteger(ended) && Math.abs(ended) < 2 ** 31 ? ended : null;
    return { event: "ToolResult", t, ...both, exit_code, ...preview, ...extra, entry_digest: entry.entry_digest };
  }

  complete(entry, t, status) {
    const { stepId: step_id, made } = this.open.get(entry.trace_id);
    this.open.delete(entry.trace_id);
    const more = made > MOST_ITERATIONS ? { iterations_total: made } : {};
    return { event: "StepComplete", t, step_id, status, iterations: Math.min(made, MOST_ITERATIONS), ...more };
  }

  /** RECEIPT.json in pieces, once the lines are through; nothing of a run that has none. */
  *receipt() {
    if (this.run === null) return;
    const { run, seal, totals } = this;
    const ended = seal?.sealed_at ?? null;
    const said = Object.keys(this.plan).length ? this.policyVersion : (this.planGone ?? "erased");
    const failed = this.codes.some((each) => Number(each) !== 0);
    const whole = canonical({
      session_id: run.run_id, started_at: run.started_at, completed_at: ended, ended_at: ended, policy_version: said,
      policy_bundle_id: said, tool_calls: [], issue_number: this.issueNumber, signature: null, schema_version: "1.0.0",
      plan_hash: seal === null ? run.plan_hash : seal.plan_hash, final_confidence: this.finalConfidence,
      costs: { cost_cents: totals.cents, cost_exact: String(totals.exact), total_sats: 0, total_tokens: totals.tokens },
      replay_hash: `sha256:${headOf(this.hash)}`, seal_digest: seal?.seal_digest ?? null, status: seal?.status ?? null,
      verification: {
        commands_run: this.commands, exit_codes: this.codes, verification_delta: this.delta, tests_after: this.passed,
        tests_before: this.passed === null ? null : this.passed - this.delta,
        ci_status: !this.codes.length ? "skip" : failed ? "fail" : "pass",
      },
    });
    const place = whole.indexOf('"tool_calls":[]') + '"tool_calls":['.length; // it stands in no text: quotes are escaped there
    yield whole.slice(0, place);
    for (const [index, each] of this.made.entries()) yield index ? `,${each}` : each;
    yield `${whole.slice(place)}\n`;
  }
}

/** [problem, place] of the first line in which a replay log is not what the journal says. */
function replayProblem(expected, log) {
  let number = 0;
  let offset = 0;
  // Not `for … of`, which would end the generator: the receipt needs the rest of it.
  for (let next = expected.next(); !next.done; next = expected.next()) {
    number += 1;
    const data = Buffer.from(next.value);
    if (!log.read(data.length).equals(data)) {
      return [problem("REPLAY_MISMATCH", `line ${number} of REPLAY.jsonl is not what the journal says`), { file: "REPLAY.jsonl", line: number, offset }];
    }
    offset += data.length;
  }
  if (log.read(1).length === 0) return null;
  return [problem("REPLAY_MISMATCH", "REPLAY.jsonl goes on after the last line that the journal says"), { file: "REPLAY.jsonl", line: number + 1, offset }];
}

// -- the log: docs/spec/log.md, C2SP signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof, tlog-policy ------------

class Damaged extends Error {}

const ED25519 = 1;
const COSIGNATURE = 4;
const MAX_POLICY = 1 << 18;
const MAX_TRUST = 1 << 20;
const MAX_POLICY_LINES = 1000;
const NOBODY = { policy: null, kept: [], roots: [] };

function fromBase64(spelled) {
  const data = Buffer.from(spelled, "base64");
  return data.toString("base64") === spelled ? data : null;
}

const isKeyName = (name) => name !== "" && length(name) <= 256 && !/[+\p{C}\p{Z}]/u.test(name);
const keyId = (name, kind, raw) => sha256().update(`${name}\n`).update(Buffer.from([kind])).update(raw).digest("hex").slice(0, 8);
const verifierKey = (name, kind, raw) => ({ name, kind, raw, id: keyId(name, kind, raw) });
const keyOf = (raw) => decodedKey(raw.toString("base64url")).key;

function readNumber(spelled) {
  const number = /^(?:0|[1-9][0-9]{0,18})$/.test(spelled) ? BigInt(spelled) : 1n << 63n;
  return number < 1n << 63n ? number : null;
}

/** { text, signatures: [{ name, id, signature }] } of a signed note, of which none is checked. */
function readNote(data) {
  if (data.length > 1 << 20) throw new Damaged("a signed note has at most 1048576 bytes");
  let whole;
  try {
    whole = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw new Damaged("a signed note is UTF-8");
  }
  if (/[\x00-\x09\x0b-\x1f]/.test(whole)) throw new Damaged("a signed note has no control character");
  const blank = whole.lastIndexOf("\n\n");
  const below = whole.slice(blank + 2);
  if (blank < 0 || !below.endsWith("\n")) throw new Damaged("a signed note is a text, an empty line, and lines of signatures");
  const lines = below.slice(0, -1).split("\n");
  if (lines.length > 100) throw new Damaged("a signed note has at most 100 signatures");
  return { text: `${whole.slice(0, blank)}\n`, signatures: lines.map(readSignature) };
}

function readSignature(spelled) {
  const [, name = "", encoded = ""] = /^\u2014 ([^ ]*) (.*)$/s.exec(spelled) ?? [];
  const raw = fromBase64(encoded);
  if (!isKeyName(name) || raw === null || raw.length < 5) throw new Damaged("below the empty line of a signed note each line is a dash, a key's name, and base64");
  return { name, id: raw.subarray(0, 4).toString("hex"), signature: raw.subarray(4) };
}

function readCheckpoint(data) {
  if (data.length > 1 << 16) throw new Damaged("a checkpoint has at most 65536 bytes");
  const note = readNote(data);
  const lines = note.text.slice(0, -1).split("\n");
  const size = readNumber(lines[1] ?? "");
  const root = fromBase64(lines[2] ?? "");
  if (lines.includes("") || size === null || root === null || root.length !== 32) throw new Damaged("a checkpoint is an origin, a size and a root, each on a line of its own");
  return { origin: lines[0], size, root, note };
}

/** Those of a file to which one was added after the other; one at its end that a crash tore is left out. */
function readCheckpoints(data) {
  const found = splitNotes(data.toString("latin1"));
  if (found.length > 1 && !isWholeNote(found.at(-1))) found.pop();
  try {
    return (found.length ? found : [""]).map((each) => readCheckpoint(Buffer.from(each, "latin1")));
  } catch (error) {
    throw error instanceof Damaged ? new WrongUsage(error.message) : error;
  }
}

const SIGNED_LINE = Buffer.from("\u2014 ").toString("latin1");
/** Whether it was written to its end: below the text there is a signature, on a line that ends. */
const isWholeNote = (note) => note.endsWith("\n") && note.slice(note.includes("\n\n") ? note.lastIndexOf("\n\n") + 2 : 0).startsWith(SIGNED_LINE);

/** The signed notes that follow one another; together they are the file. */
function splitNotes(whole) {
  const found = [];
  let [isBelow, afterBlank] = [true, false];
  for (const line of whole.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
    const isSigned = line.startsWith(SIGNED_LINE) && found.length > 0 && (isBelow || afterBlank);
    if (isBelow && !isSigned) found.push("");
    found[found.length - 1] += line;
    [isBelow, afterBlank] = [isSigned, line === "\n"];
  }
  return found;
}

function readProof(data) {
  if (data.length > 1 << 17) throw new Damaged("a proof has at most 131072 bytes");
  const blank = data.indexOf("\n\n");
  const above = (blank < 0 ? data : data.subarray(0, blank)).toString("latin1");
  const [first, ...lines] = above.split("\n");
  if (/[^\x00-\x7f]/.test(above) || first !== "c2sp.org/tlog-proof@v1" || blank < 0) throw new Damaged("a proof begins with its name, and its checkpoint follows an empty line");
  if (lines[0]?.startsWith("extra ") && fromBase64(lines.shift().slice(6)) === null) throw new Damaged("the extra data of a proof is base64");
  const index = lines[0]?.startsWith("index ") ? readNumber(lines.shift().slice(6)) : null;
  if (index === null) throw new Damaged("a proof has the line `index N` before its hashes");
  const checkpoint = readCheckpoint(data.subarray(blank + 2));
  const hashes = lines.map(fromBase64);
  if (index >= checkpoint.size || hashes.length > 63 || hashes.some((each) => each?.length !== 32)) throw new Damaged("a leaf that is none of the log, or a line that is no SHA-256 in base64");
  return { index, hashes, checkpoint };
}

/** The root that a leaf and its path come to (RFC 9162, 2.1.3.2); null where the path is of another length. */
function rootFrom(leaf, index, size, hashes) {
  const tree = new Tree();
  let node = sha256().update("\0").update(leaf).digest();
  let [at, last] = [index, size - 1n];
  const left = [...hashes];
  for (; last > 0n; at >>= 1n, last >>= 1n) {
    const other = left.shift();
    if (other === undefined) return null;
    if (at & 1n || at === last) {
      node = tree.join(other, node);
      for (; !(at & 1n) && at > 0n; at >>= 1n) last >>= 1n;
    } else node = tree.join(node, other);
  }
  return left.length ? null : node;
}

/** Whether this Ed25519 key signed the text, in each line that is its; null where none is. */
function signedBy(note, key) {
  const lines = note.signatures.filter(({ name, id }) => name === key.name && id === key.id);
  if (key.kind !== ED25519 || !lines.length) return null;
  return lines.every(({ signature }) => hasSigned(keyOf(key.raw), note.text, signature));
}

/** When this witness cosigned first, in seconds; null where he did not, false where a line of his is not what he signed. */
function cosignedBy(note, key) {
  let first = null;
  for (const { name, id, signature } of note.signatures) {
    if (name !== key.name || id !== key.id) continue;
    const time = signature.length === 72 ? signature.readBigUInt64BE(0) : 0n;
    if (time < 1n || time >= 1n << 63n || !hasSigned(keyOf(key.raw), `cosignature/v1\ntime ${time}\n${note.text}`, signature.subarray(8))) return false;
    if (first === null || time < first) first = time;
  }
  return first;
}

function wrongUsage(why) {
  throw new WrongUsage(why);
}

function readVkey(spelled, refuse = wrongUsage) {
  const [name, id, ...rest] = spelled.split("+");
  const raw = fromBase64(rest.join("+"));
  const found = raw !== null && raw.length === 33 && isKeyName(name) ? verifierKey(name, raw[0], raw.subarray(1)) : null;
  if (found === null || found.id !== id) refuse("a verifier key is written NAME+8 HEX DIGITS+BASE64, and its id is that of its key");
  return found;
}

/** Which logs and witnesses are known, and whose cosignatures are enough. Bytes that are no UTF-8 stay what they are in names. */
function readPolicy(data) {
  if (data.length > MAX_POLICY) throw new WrongUsage(`a witness policy has at most ${MAX_POLICY} bytes`);
  if (data.some((byte) => (byte < 0x20 && byte !== 0x09 && byte !== 0x0a) || byte === 0x7f)) throw new WrongUsage("a witness policy has no control characters but tab and newline");
  const lines = data.toString("latin1").split("\n");
  if (lines.length > MAX_POLICY_LINES) throw new WrongUsage(`a witness policy has at most ${MAX_POLICY_LINES} lines`);
  const policy = { logs: [], witnesses: [], groups: new Map(), quorum: null };
  const grouped = new Set();
  for (const [index, spelled] of lines.entries()) {
    const [kind, ...words] = spelled.split(/[ \t]+/).filter(Boolean);
    if (kind === undefined || kind.startsWith("#")) continue;
    takePolicyLine(policy, grouped, kind, words, (why) => wrongUsage(`witness policy, line ${index + 1}: ${why}`));
  }
  if (policy.quorum === null) throw new WrongUsage("a witness policy says whose word is enough: `quorum NAME`, or `quorum none`");
  return policy;
}

/** Refuses what cannot follow the lines above it: a member of two groups, and a key under two names, would count twice. */
function takePolicyLine(policy, grouped, kind, words, refuse) {
  const isKnown = (name) => policy.groups.has(name) || policy.witnesses.some((each) => each.name === name);
  const isTaken = (name) => name === "none" || isKnown(name);
  const isThere = (keys, key) => keys.some((other) => other.raw.equals(key.raw));
  const vkey = (word) => readVkey(Buffer.from(word, "latin1").toString(), refuse); // only the names that a policy gives may be any bytes
  if (kind === "log") {
    if (words.length !== 1 && words.length !== 2) refuse("a log is written `log VKEY [URL]`");
    const key = vkey(words[0]);
    if (key.kind !== ED25519) refuse("a log's key is an Ed25519 key, of kind 1");
    if (isThere(policy.logs, key)) refuse("this log stands there twice");
    policy.logs.push(key);
  } else if (kind === "witness") {
    if (words.length !== 2 && words.length !== 3) refuse("a witness is written `witness NAME VKEY [URL]`");
    if (isTaken(words[0])) refuse("the name of this one is taken");
    const key = vkey(words[1]);
    if (key.kind !== COSIGNATURE) refuse("a witness's key is one for cosignatures, of kind 4");
    if (isThere(policy.witnesses.map((each) => each.key), key)) refuse("this witness stands there twice");
    policy.witnesses.push({ name: words[0], key });
  } else if (kind === "group") {
    if (words.length < 3) refuse("a group is written `group NAME all|any|K MEMBER…`");
    const [name, count, ...members] = words;
    if (isTaken(name)) refuse("the name of this one is taken");
    if (new Set(members).size < members.length || members.some((each) => !isKnown(each) || grouped.has(each))) refuse("a group names witnesses and groups of lines above, each of which is in one group");
    const needed = count === "all" ? members.length : count === "any" ? 1 : Number(readNumber(count) ?? 0n);
    if (needed < 1 || needed > members.length) refuse(`of ${members.length} members 1 to ${members.length} can be needed`);
    for (const each of members) grouped.add(each);
    policy.groups.set(name, { needed, members });
  } else if (kind === "quorum") {
    if (words.length !== 1 || !(words[0] === "none" || isKnown(words[0]))) refuse("the quorum is a witness or a group of a line above, or none");
    if (policy.quorum !== null) refuse("there is one quorum");
    [policy.quorum] = words;
  } else refuse("a line begins with log, witness, group, quorum or #");
}

function isMet(policy, cosigned) {
  const met = new Set(cosigned);
  for (const [name, { needed, members }] of policy.groups) if (members.filter((each) => met.has(each)).length >= needed) met.add(name);
  return policy.quorum === "none" || met.has(policy.quorum);
}

// -- time stamps: RFC 3161, docs/spec/log.md, "Time stamps" ------------------------------------------------------------

const LONGEST_CHAIN = 8;
const DER = { BOOLEAN: 0x01, THIRD: 0xa3, INTEGER: 0x02, OCTETS: 0x04, SEQUENCE: 0x30, SET: 0x31, TIME: 0x18, FIRST: 0xa0 };
const OIDS = {
  signedData: "2a864886f70d010702", tstInfo: "2a864886f70d0109100104", contentType: "2a864886f70d010903",
  extendedKeyUsage: "551d25", basicConstraints: "551d13", timeStamping: "2b06010505070308", messageDigest: "2a864886f70d010904", certificateV1: "2a864886f70d010910020c", certificateV2: "2a864886f70d010910022f",
};
const STAMP_DIGESTS = { "608648016503040201": "sha256", "608648016503040202": "sha384", "608648016503040203": "sha512" };
const MAX_STAMP = 65_536;

function damaged(what = "a time stamp is not built as RFC 3161 says") {
  throw new Damaged(what);
}

/** A value of DER: its tag, its bytes, and all of it. */
function derAt(data, start) {
  if (data.length - start < 2 || (data[start] & 0x1f) === 0x1f) damaged("a time stamp is no DER");
  let [size, begin] = [data[start + 1], start + 2];
  if (size >= 0x80) {
    const count = size & 0x7f;
    if (count === 0 || count > 4 || data.length - begin < count) damaged("a time stamp is no DER");
    size = data.readUIntBE(begin, count);
    if (data[begin] === 0 || size < 0x80) damaged("a time stamp is no DER");
    begin += count;
  }
  if (data.length - begin < size) damaged("a time stamp was cut");
  return { tag: data[start], content: data.subarray(begin, begin + size), raw: data.subarray(start, begin + size) };
}

function derWhole(data) {
  const found = derAt(data, 0);
  return found.raw.length === data.length ? found : damaged("something follows the time stamp");
}

function derParts(value, tag = value?.tag) {
  if (value === undefined || value.tag !== tag) damaged();
  const found = [];
  for (let start = 0; start < value.content.length; start += found.at(-1).raw.length) found.push(derAt(value.content, start));
  return found;
}

function derTwo(value) {
  const parts = derParts(value, DER.SEQUENCE);
  return parts.length === 2 ? parts : damaged();
}

function derNumber(value) {
  if (value === undefined || value.tag !== DER.INTEGER || !value.content.length) damaged("a time stamp has no number where RFC 3161 has one");
  return BigInt.asIntN(8 * value.content.length, BigInt(`0x${value.content.toString("hex")}`));
}

const hexOf = (value) => value?.content.toString("hex");

/** { imprint, time, info, signer, certificates } of an answer that has a stamp in it. */
function readStamp(data) {
  if (data.length > MAX_STAMP) damaged(`a time stamp has at most ${MAX_STAMP} bytes`);
  const parts = derParts(derWhole(data), DER.SEQUENCE);
  const status = parts.length ? derParts(parts[0], DER.SEQUENCE) : [];
  const granted = status.length ? derNumber(status[0]) : null;
  if ((granted !== 0n && granted !== 1n) || parts.length !== 2) damaged(`the authority gave no time stamp (status ${granted})`);
  const [kind, content] = derTwo(parts[1]);
  if (hexOf(kind) !== OIDS.signedData || content.tag !== DER.FIRST) damaged("a time stamp is signed data, and this is something else");
  const signed = derParts(derWhole(content.content), DER.SEQUENCE);
  if (signed.length < 4) damaged();
  const [innerKind, wrapped] = derTwo(signed[2]);
  const signers = derParts(signed.at(-1), DER.SET);
  if (hexOf(innerKind) !== OIDS.tstInfo || wrapped.tag !== DER.FIRST || signers.length !== 1) damaged("a time stamp has one signature over what RFC 3161 calls TSTInfo");
  const info = derWhole(wrapped.content);
  if (info.tag !== DER.OCTETS) damaged();
  const bag = signed.slice(3, -1).find(({ tag }) => tag === DER.FIRST);
  const certificates = bag === undefined ? [] : derParts(bag).map(({ raw }) => readCertificate(raw)).filter((each) => each !== null);
  return { ...readStampInfo(info.content), info: info.content, signer: signers[0], certificates };
}

/** null for one that nobody can read: it vouches for nothing. */
function readCertificate(raw) {
  try {
    const [tbs] = derParts(derWhole(raw), DER.SEQUENCE);
    const fields = derParts(tbs, DER.SEQUENCE).filter(({ tag }) => tag !== DER.FIRST);
    const [serial, , issuer, validity, subject] = fields;
    const [from, to] = derParts(validity, DER.SEQUENCE).map(readCertificateTime);
    const read = new X509Certificate(raw);
    return { raw, issuer: issuer.raw, subject: subject.raw, serial: derNumber(serial), from, to, read, key: read.publicKey, extensions: readExtensions(fields) };
  } catch {
    return null;
  }
}

/** Seconds since 1970 of UTCTime or GeneralizedTime, as certificates have them. */
function readCertificateTime({ tag, content }) {
  const spelled = content.toString("latin1");
  const whole = tag === DER.TIME ? spelled : `${Number(spelled.slice(0, 2)) < 50 ? "20" : "19"}${spelled}`;
  const [, year, month, day, hour, minute, second] = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(whole);
  return Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second)) / 1000;
}

/** By the id of each, { critical, value }; null where one stands there twice. */
function readExtensions(fields) {
  const wrapped = fields.find(({ tag }) => tag === DER.THIRD);
  const found = new Map();
  for (const each of wrapped === undefined ? [] : derParts(derWhole(wrapped.content), DER.SEQUENCE)) {
    const parts = derParts(each, DER.SEQUENCE);
    if (found.has(hexOf(parts[0]))) return null;
    found.set(hexOf(parts[0]), { critical: parts.length === 3 && hexOf(parts[1]) === "ff", value: parts.at(-1).content });
  }
  return found;
}

/** Why the certificate that a stamp names is none to believe for whoever trusts these roots; null where it is. */
function authorityProblem(stamp, roots) {
  try {
    const certificate = signerOf(stamp);
    return certificate === undefined ? "the certificate of the authority did not come with the time stamp" : (purposeProblem(certificate) ?? chainProblem(certificate, stamp, roots));
  } catch (error) {
    return error instanceof Damaged ? error.message : "a certificate of the time stamp cannot be read";
  }
}

function purposeProblem({ extensions }) {
  if (extensions === null) return "a certificate of the time stamp cannot be read";
  const usage = extensions.get(OIDS.extendedKeyUsage);
  if (usage === undefined) return "its certificate is none for time stamps";
  const purposes = derParts(derWhole(usage.value), DER.SEQUENCE).map(hexOf);
  return purposes.length === 1 && purposes[0] === OIDS.timeStamping && usage.critical ? null : "its certificate is not one for time stamps alone";
}

/** From the authority's certificate to one of the roots, each valid at that time, each issuer a CA. */
function chainProblem(certificate, { time, certificates }, roots) {
  const then = Date.parse(time) / 1000;
  let current = certificate;
  for (let length = 0; length < LONGEST_CHAIN; length += 1) {
    const { from, to, raw } = current;
    if (then < from || then > to) return "a certificate of the time stamp was not valid then";
    if (roots.some((root) => root.raw.equals(raw))) return null;
    current = [...roots, ...certificates].find((each) => isIssuedBy(current, each));
    if (current === undefined) return "no certificate that is trusted vouches for the authority";
  }
  return "the chain of certificates is too long";
}

function isIssuedBy(certificate, issuer) {
  if (certificate.raw.equals(issuer.raw) || !certificate.issuer.equals(issuer.subject) || issuer.extensions === null) return false;
  const constraints = issuer.extensions.get(OIDS.basicConstraints);
  try {
    const [isAuthority] = constraints === undefined ? [] : derParts(derWhole(constraints.value), DER.SEQUENCE);
    return isAuthority?.tag === DER.BOOLEAN && hexOf(isAuthority) === "ff" && certificate.read.verify(issuer.key);
  } catch {
    return false;
  }
}

/** By issuer and serial number, and no other one: the signed attributes name it too. */
function signerOf({ signer, certificates }) {
  const [issuer, number] = derTwo(derParts(signer, DER.SEQUENCE)[1]);
  return certificates.find((each) => each.issuer.equals(issuer.raw) && each.serial === derNumber(number));
}

/** The certificates of a file in PEM. */
function readRoots(data) {
  const found = data.toString("latin1").match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  const read = found.map((spelled) => readCertificate(Buffer.from(spelled.replace(/-----[^-]*-----/g, ""), "base64")));
  if (!read.length || read.includes(null)) throw new WrongUsage("a file of --tsa-ca holds certificates in PEM");
  return read;
}

function readStampInfo(raw) {
  const parts = derParts(derWhole(raw), DER.SEQUENCE);
  if (parts.length < 5 || parts[4].tag !== DER.TIME) damaged();
  const [algorithm, imprint] = derTwo(parts[2]);
  const [named] = derParts(algorithm, DER.SEQUENCE);
  if (named !== undefined && STAMP_DIGESTS[hexOf(named)] !== "sha256") damaged("the time stamp is over another digest than SHA-256");
  const nonce = parts.slice(5).find(({ tag }) => tag === DER.INTEGER);
  if (nonce !== undefined) derNumber(nonce);
  const spelled = parts[4].content.toString("latin1");
  const [, year, month, day, hour, minute, second] = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(spelled.slice(0, 14) + spelled.slice(-1)) ?? [];
  const time = `${year}-${month}-${day}T${hour}:${minute}:${second}Z`;
  const read = new Date(time);
  if (/[^\x00-\x7f]/.test(spelled) || year === "0000" || Number.isNaN(read.getTime()) || read.toISOString() !== time.replace("Z", ".000Z")) damaged("the time of the time stamp cannot be read");
  return { imprint: imprint.content, time };
}

/** Why it is no stamp over `text` by the certificate that it names; null where it is. */
function stampProblem(stamp, text) {
  if (!stamp.imprint.equals(sha256().update(text).digest())) return "the time stamp is over something else";
  try {
    return stampSignatureProblem(stamp);
  } catch (error) {
    return error instanceof Damaged ? error.message : "a certificate of the time stamp cannot be read";
  }
}

function stampSignatureProblem(stamp) {
  const { info } = stamp;
  const parts = derParts(stamp.signer, DER.SEQUENCE);
  const certificate = signerOf(stamp);
  if (certificate === undefined) return "the certificate of the authority did not come with the time stamp";
  if (parts.length < 6 || parts[3].tag !== DER.FIRST) return "the time stamp has no signed attributes";
  const algorithm = STAMP_DIGESTS[hexOf(derParts(parts[2], DER.SEQUENCE)[0])];
  if (algorithm === undefined) return "the time stamp is signed with a digest that is not read here";
  const attributes = new Map(derParts(parts[3]).map(derTwo).map(([kind, values]) => [hexOf(kind), derParts(values, DER.SET)]));
  const isOnly = (kind, said) => attributes.get(kind)?.length === 1 && hexOf(attributes.get(kind)[0]) === said;
  if (!isOnly(OIDS.contentType, OIDS.tstInfo)) return "the signature is not one of a time stamp";
  if (!isOnly(OIDS.messageDigest, createHash(algorithm).update(info).digest("hex"))) return "the signature is over another time stamp";
  if (!namesCertificate(attributes, certificate.raw)) return "the signature names another certificate";
  const { key } = certificate;
  if (!["rsa", "ec", "ed25519"].includes(key.asymmetricKeyType)) return "its signature does not fit";
  const signed = Buffer.concat([Buffer.from([DER.SET]), parts[3].raw.subarray(1)]);
  const fits = verifySignature(key.asymmetricKeyType === "ed25519" ? null : algorithm, signed, key, parts[5].content);
  return fits ? null : "its signature does not fit";
}

/** Whether the signed attribute that binds the certificate is there and binds this one (RFC 5035, RFC 5816). */
function namesCertificate(attributes, raw) {
  for (const [kind, usual] of [[OIDS.certificateV2, "sha256"], [OIDS.certificateV1, "sha1"]]) {
    for (const value of attributes.get(kind) ?? []) {
      let first = derParts(derParts(derParts(value, DER.SEQUENCE)[0], DER.SEQUENCE)[0], DER.SEQUENCE);
      let used = usual;
      if (first[0]?.tag === DER.SEQUENCE) {
        used = STAMP_DIGESTS[hexOf(derParts(first[0])[0])];
        if (used === undefined) return false;
        first = first.slice(1);
      }
      if (first[0]?.tag === DER.OCTETS && first[0].content.equals(createHash(used).update(raw).digest())) return true;
    }
  }
  return false;
}

/** Whether somebody outside saw the store's log with this run's seal in it, and still says so. */
class Anchoring {
  constructor(believed, signed, findings, log) {
    Object.assign(this, { believed, signed, findings, log });
  }

  add(code, what, expected = null, got = null) {
    this.findings.add(problem(code, what, expected, got), { file: "seal.tlog-proof" });
  }

  judge(leaf) {
    const before = this.findings.total;
    let anchor = null;
    try {
      anchor = leaf === null ? null : this.anchorOf(leaf);
    } catch (error) {
      if (!(error instanceof Damaged)) throw error;
      this.add("LOG_PROOF", error.message);
    }
    if (this.findings.total > before) return { verdict: "contradicted", anchor };
    return { verdict: anchor !== null && this.isEnough(anchor) ? "holds" : "absent", anchor };
  }

  anchorOf(leaf) {
    const { storeId } = this.signed;
    const origin = storeId === null ? null : `reenact/${storeId}`;
    const proof = this.log.proof === null ? null : readProof(this.log.proof);
    const anchor = proof === null ? null : this.proved(proof, leaf, origin);
    const kept = this.keptHeads(proof, leaf, origin);
    const sizes = kept.map(({ size }) => Number(size)).sort((a, b) => a - b);
    if (anchor !== null) {
      const times = this.log.stamp === null ? [] : this.stamped(this.log.stamp, proof.checkpoint.note.text);
      return { ...anchor, kept: sizes, stamped: times };
    }
    if (!kept.length) return null;
    return this.anchor(kept[0], proof.index, { kept: sizes });
  }

  /** The time that an authority whom the reader believes gave for the head. */
  stamped(data, text) {
    const { roots } = this.believed;
    const stamp = readStamp(data);
    const wrong = stampProblem(stamp, text);
    if (wrong !== null) this.add("LOG_SIGNATURE", wrong);
    else if (!roots.length) this.findings.note(`a time stamp says ${stamp.time}, of an authority that nobody named here, with --tsa-ca`);
    else {
      const why = authorityProblem(stamp, roots);
      if (why === null) return [stamp.time];
      this.findings.note(`a time stamp of ${stamp.time} does not count: ${why}`);
    }
    return [];
  }

  anchor({ origin, size, root }, index, more) {
    return { origin, index: Number(index), size: Number(size), root: root.toString("hex"), witnesses: [], known: 0, since: null, kept: [], stamped: [], ...more };
  }

  proved({ index, hashes, checkpoint }, leaf, origin) {
    const { policy } = this.believed;
    if (origin !== null && checkpoint.origin !== origin) {
      this.add("LOG_PROOF", "the proof is of another log", origin, checkpoint.origin);
      return null;
    }
    const root = rootFrom(leaf, index, checkpoint.size, hashes);
    if (!root?.equals(checkpoint.root)) {
      this.add("LOG_CONTRADICTED", "the seal does not lead to the head that was signed");
      return null;
    }
    if (!this.isOfLog(checkpoint)) return null;
    const cosigned = [];
    for (const { name, key } of policy?.witnesses ?? []) {
      const time = cosignedBy(checkpoint.note, key);
      if (time === false) this.add("LOG_SIGNATURE", `the cosignature of ${name} does not fit his key`);
      else if (time !== null) cosigned.push([name, time]);
    }
    const others = new Set(checkpoint.note.signatures.map(({ name, id }) => `${name} ${id}`)).size - 1 - cosigned.length;
    if (others > 0) this.findings.note(`${others} cosignature${others > 1 ? "s" : ""} of witnesses that nobody named here, with --witness-policy: not checked`);
    const first = cosigned.map(([, time]) => time).sort((a, b) => (a < b ? -1 : 1))[0];
    const since = first === undefined ? null : first <= 253402300799n ? new Date(Number(first) * 1000).toISOString().replace(".000Z", "Z") : `${first} s after 1970`;
    return this.anchor(checkpoint, index, { witnesses: cosigned.map(([name]) => name), known: policy?.witnesses.length ?? 0, since });
  }

  /** Whether a key that may sign for the log signed its head; a signature that does not fit is told. */
  isOfLog({ origin, note }) {
    const named = this.believed.policy?.logs ?? [];
    const logs = named.filter(({ name }) => name === origin);
    if (named.length && !logs.length) {
      this.findings.note(`the witness policy names other logs than ${origin}`);
      return false;
    }
    const own32 = this.signed.logKeys.map(fromBase64url).filter((raw) => raw?.length === 32);
    for (const each of logs.length ? logs : own32.map((raw) => verifierKey(origin, ED25519, raw))) {
      const found = signedBy(note, each);
      if (found === false) this.add("LOG_SIGNATURE", `the checkpoint is not signed by key ${each.id}`);
      if (found !== null) return found;
    }
    this.findings.note("the log's checkpoint is signed by no key that is believed here");
    return false;
  }

  /** The heads that the reader kept, and that the seal is in. */
  keptHeads(proof, leaf, origin) {
    const found = [];
    const every = this.believed.kept;
    const mine = every.filter((head) => origin === null || head.origin === origin);
    if (mine.length && mine.length < every.length) this.findings.note(`${every.length - mine.length} of the kept checkpoints are of other logs, and say nothing of this one`);
    for (const head of mine.length ? mine : every) {
      if (origin !== null && head.origin !== origin) this.add("LOG_CONTRADICTED", "the kept checkpoint is of another log", head.origin, origin);
      else if (proof === null || proof.checkpoint.size !== head.size) this.findings.note(`the kept checkpoint has size ${head.size}, the proof here another: ask for one of that size`);
      else if (!rootFrom(leaf, proof.index, head.size, proof.hashes)?.equals(head.root)) this.add("LOG_CONTRADICTED", "this is not the log whose head was kept");
      else found.push(head);
    }
    return found;
  }

  isEnough(anchor) {
    const { policy } = this.believed;
    if (anchor.kept.length || anchor.stamped.length) return true;
    if (policy === null || !anchor.witnesses.length) return false;
    if (isMet(policy, anchor.witnesses)) return true;
    this.findings.note(`${anchor.witnesses.length} of ${anchor.known} witnesses saw it: not enough`);
    return false;
  }
}

// -- the bundle: docs/spec/bundle.md, "Steps of verification" ---------------------------------------------------------

class Bundle {
  findings = new Findings();
  manifest = null;
  continues = null;
  digests = new Map(); // of the files that were read whole
  unread = new Set(); // told already

  constructor(folder, trusted, believed, isParent = false) {
    Object.assign(this, { folder, trusted, believed, isParent });
  }

  verify() {
    this.readManifest(); // step 1
    this.signedNotes = readNotes(this.linesIn("notes.jsonl"), this.findings); // step 2
    const signed = new Signed(this.signedNotes, this.findings, this.keys(), this.trusted);
    const erased = signed.erasures(this.linesIn("erasures.jsonl"));
    const packed = this.manifest?.schema === "reenact.bundle.v2" && this.manifest.payloads === "full" ? this.unpacked() : null;
    const source = this.manifest?.payloads === "none" ? null : packed === null ? this.envelopes() : (named) => packed.get(named) ?? null;
    const payloads = new Payloads(source, erased, this.findings);
    const journal = new Journal(payloads, signed.ring, this.findings);
    this.readJournal(journal); // steps 3 to 5
    signed.end(journal);
    this.sealCopy(journal); // step 6
    this.sealNote(signed, journal);
    this.planCopy(journal, payloads);
    this.views(source, erased);
    this.continues = journal.run?.parent_run ?? null; // step 7
    const continued = this.parents();
    const log = { proof: this.read("seal.tlog-proof"), stamp: this.read("seal.tsr") };
    this.checkFolder(payloads, packed); // step 8
    if (this.manifest !== null && journal.runId !== null && journal.runId !== this.manifest.run_id) {
      this.findings.add(problem("RUN_MISMATCH", "the manifest's run_id", journal.runId, this.manifest.run_id), { file: "manifest.json" });
    }
    const report = conclude(journal, payloads, signed, this.findings, new Anchoring(this.believed, signed, this.findings, log));
    return continued === null ? report : weaker(report, continued);
  }

  read(name) {
    const data = this.folder.read(name);
    if (data === null) return null;
    if (!Buffer.isBuffer(data)) {
      this.findings.add(data, { file: name });
      this.unread.add(name);
      return null;
    }
    this.digests.set(name, hashOf(data));
    return data;
  }

  /** { value } of a canonical JSON file that ends with a newline; null where there is none. */
  document(name, wrongCode = "FILE_MALFORMED") {
    const data = this.read(name);
    if (data === null) return null;
    const ended = data.at(-1) === 10;
    const read = readCanonical(ended ? data.subarray(0, -1) : data, name);
    if (!read.code && ended && read.value !== null) return read;
    this.findings.add(problem(wrongCode, read.code ? read.what : `${name} is null, or does not end with a newline`), { file: name });
    return null;
  }

  linesIn(name) {
    const data = this.read(name);
    if (data === null) return [];
    const ended = data.at(-1) === 10;
    if (!ended) this.findings.add(problem("EVIDENCE_TORN_TAIL", `${name} does not end with a newline`), { file: name });
    const whole = ended ? data.subarray(0, -1) : data;
    const lines = [];
    let start = 0;
    for (let end = whole.indexOf(10); end >= 0; end = whole.indexOf(10, start)) {
      lines.push(whole.subarray(start, end));
      start = end + 1;
    }
    return [...lines, whole.subarray(start)];
  }

  readManifest() {
    const where = { file: "manifest.json" };
    const found = this.document("manifest.json", "MANIFEST_MALFORMED");
    if (found === null) {
      if (!this.digests.has("manifest.json") && !this.unread.has("manifest.json")) this.findings.add(problem("MANIFEST_MISSING", "the bundle has no manifest.json"), where);
      return;
    }
    const wrong = formProblem(found.value, MANIFEST, "MANIFEST_MALFORMED");
    if (wrong) return void this.findings.add(wrong, where);
    const manifest = found.value;
    this.manifest = manifest;
    const recomputed = digest(without(manifest, "digest"));
    if (manifest.digest !== recomputed) this.findings.add(problem("MANIFEST_DIGEST", "the digest of the manifest", recomputed, manifest.digest), where);
    for (const each of manifestProblems(manifest)) this.findings.add(each, where);
  }

  keys() {
    const found = this.document("keys.json");
    const wrong = found === null ? null : formProblem(found.value, KEYS, "FILE_MALFORMED");
    if (wrong) this.findings.add(wrong, { file: "keys.json" });
    return found === null || wrong ? null : found.value;
  }

  /** The envelope of a commitment; what is no plain file counts as absent, and is told once. */
  envelopes() {
    const told = new Set();
    return (commitment) => {
      const name = `payloads/${commitment}`;
      const data = this.folder.read(name);
      if (data === null || Buffer.isBuffer(data)) return data;
      if (!told.has(name)) this.findings.add(data, { file: name });
      told.add(name);
      return null;
    };
  }

  /** The envelopes of packed payloads by commitment; what is wrong with a file is told once, and reading it ends there. */
  unpacked() {
    const packed = new Map();
    let last = "";
    for (let number = 1; number <= MAX_PACKED_FILES; number += 1) {
      const name = packedName(number);
      if (!own(this.manifest.files, name)) continue;
      const parts = [];
      const fed = this.folder.feed(name, (chunk) => parts.push(chunk), 2 * MAX_FILE);
      if (fed === null) continue; // the manifest names it, so it is told as missing
      if (fed !== true) {
        this.findings.add(fed, { file: name });
        continue;
      }
      const read = readPacked(Buffer.concat(parts), name, last, packed);
      last = read.last;
      if (read.wrong) this.findings.add(read.wrong, { file: name, line: read.line });
      else this.digests.set(name, read.digest);
    }
    for (const name of Object.keys(this.manifest.files)) if (name.endsWith(".gz") && !this.digests.has(name)) this.unread.add(name);
    return packed;
  }

  /** What other programs read says what notes.jsonl says; absent in bundles of before. */
  sealNote(signed, journal) {
    const data = this.read("seal.note");
    if (journal.seal === null) {
      if (data !== null || this.signedNotes.some(({ schema }) => schema === "reenact.seal.v1")) {
        this.findings.add(problem("SEAL_MISSING", "a note about the run's seal is there, and the journal has no seal"), { file: "notes.jsonl" });
      }
    } else if (data !== null && !signed.isSealNote(data, journal.seal.seal_digest)) {
      this.findings.add(problem("NOTE_MALFORMED", "seal.note is not the note about the seal in notes.jsonl"), { file: "seal.note" });
    }
  }

  readJournal(journal) {
    const opened = this.folder.open("journal.jsonl");
    if (opened === null || opened.code) {
      this.findings.add(opened ?? problem("FILE_MISSING", "the bundle has no journal.jsonl"), { file: "journal.jsonl" });
      this.unread.add("journal.jsonl");
      return;
    }
    const whole = sha256();
    let all = true;
    try {
      for (const raw of linesOf(opened.chunks())) {
        whole.update(raw);
        all = journal.line(raw);
        if (!all) break;
      }
    } finally {
      opened.close();
    }
    if (all) this.digests.set("journal.jsonl", whole.digest("hex"));
    else {
      this.findings.note(`reading stopped at line ${journal.lines} of journal.jsonl`);
      this.unread.add("journal.jsonl");
    }
    journal.end();
  }

  sealCopy(journal) {
    const found = this.document("seal.json");
    const where = { file: "seal.json", commit: journal.commits || null };
    if (found === null) {
      if (journal.seal !== null && !this.digests.has("seal.json")) {
        this.findings.add(problem("FILE_MISSING", "the journal is sealed, and seal.json is not there"), { file: "seal.json" });
      }
    } else if (journal.seal === null || !same(journal.seal, found.value)) {
      this.findings.add(problem("SEAL_MISSING", "seal.json is there, and the journal does not end with that seal"), where);
    }
  }

  planCopy(journal, payloads) {
    const found = this.document("plan.json");
    const where = { file: "plan.json" };
    const known = journal.plan;
    if (found === null) {
      if (known !== null && !this.digests.has("plan.json")) {
        this.findings.add(problem("FILE_MISSING", "the plan's payload is there, and plan.json is not"), where);
      }
      return;
    }
    if (known !== null && same(found.value, known)) return;
    const ofSession = known !== null && journal.run?.kind === "session";
    if (!ofSession || !isWhole(found.value, known, (named) => payloads.value(named, where))) {
      this.findings.add(problem("PLAN_MISMATCH", "plan.json is not the plan whose payload the journal names"), where);
    }
  }

  /** REPLAY.jsonl and RECEIPT.json, made again from a journal that is whole. */
  views(source, erased) {
    const opened = ["REPLAY.jsonl", "RECEIPT.json", "journal.jsonl"].map((name) => this.folder.open(name));
    const [log, receipt, journal] = opened.map((each) => (each === null || each.code ? null : each));
    try {
      if (source === null || journal === null || (log === null && receipt === null)) return;
      if ([...this.findings.broken].some((aspect) => aspect !== "authenticity")) {
        return void this.findings.note("REPLAY.jsonl and RECEIPT.json were not held against a journal that is broken");
      }
      const archived = new Set([...erased].filter(([, { bundle }]) => bundle !== null).map(([commitment]) => commitment));
      const views = new Views(linesOf(journal.chunks()), source, archived);
      const expected = views.replay();
      const differs = log === null ? null : replayProblem(expected, log);
      if (differs !== null) this.findings.add(...differs);
      for (const line of expected) void line; // the rest, for the receipt
      if (receipt !== null && !receipt.equals(views.receipt())) {
        this.findings.add(problem("RECEIPT_MISMATCH", "RECEIPT.json is not what the journal says"), { file: "RECEIPT.json" });
      }
    } finally {
      for (const each of [log, receipt, journal]) if (each !== null) each.close();
    }
  }

  /** Each is a bundle of its own, from the same store; whether all that came along are authentic. */
  parents() {
    const files = this.manifest?.files ?? {};
    const named = new Map(Object.keys(files).filter((name) => name.startsWith("parents/")).map((name) => [name.split("/")[1], name]));
    for (const name of named.values()) this.unread.add(name);
    let runId = this.isParent ? null : this.continues;
    let least = null;
    for (;;) {
      const folder = named.has(runId) ? this.folder.parent(runId) : null;
      if (folder === null) break;
      const parent = new Bundle(folder, this.trusted, this.believed, true);
      const report = parent.verify();
      this.takeParent(parent, report, runId, named.get(runId));
      named.delete(runId);
      least = least === null ? report : weaker(least, report);
      runId = parent.continues;
    }
    for (const [other, name] of named) {
      if (this.folder.parent(other) === null) continue; // told as missing
      const extra = problem("FILE_EXTRA", `run ${other} is none that this one continues, by what is here of those`);
      this.findings.add(extra, { file: name });
    }
    return least;
  }

  takeParent(parent, report, runId, name) {
    const place = name.slice(0, -"manifest.json".length);
    const got = parent.digests.get("manifest.json") ?? null;
    if (got !== this.manifest.files[name]) this.findings.add(problem("FILE_CHANGED", `the digest of ${name}`, this.manifest.files[name], got), { file: name });
    if (report.run_id !== runId) this.findings.add(problem("RUN_MISMATCH", "the run that is continued", runId, report.run_id), { file: name });
    if (parent.digests.get("keys.json") !== this.digests.get("keys.json")) {
      this.findings.add(problem("KEY_HISTORY", "the keys of a run that is continued are not those of this bundle"), { file: `${place}keys.json` });
    }
    this.findings.take(report, place);
    this.findings.note(`run ${runId}, which it continues, came along: ${report.counts.commits} commits`);
  }

  checkFolder(payloads, packed) {
    const files = this.manifest?.files ?? {};
    const missing = new Set(Object.keys(files));
    const litter = this.folder.beside();
    for (const [name, isFile] of this.folder.names()) {
      if (this.findings.total > GIVE_UP_AFTER) return this.findings.note("the folder was not read to its end");
      if (name === "manifest.json") continue;
      if (!missing.delete(name) && isLitter(name)) {
        litter.push(name);
        continue;
      }
      const wrong = this.fileProblem(name, files, payloads, isFile);
      if (wrong) this.findings.add(wrong, { file: shown(name) });
    }
    for (const name of [...missing].sort()) this.findings.add(problem("FILE_MISSING", `${name} is named by the manifest and not there`), { file: name });
    if (litter.length) this.findings.note(`not part of the evidence: ${litter.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))).slice(0, SHOWN_NAMES).map((name) => shown(name)).join(", ")}${litter.length > SHOWN_NAMES ? `, and ${litter.length - SHOWN_NAMES} more` : ""}`);
    for (const commitment of packed?.keys() ?? []) {
      if (this.findings.total > GIVE_UP_AFTER) return undefined;
      if (!payloads.sizes.has(commitment)) this.findings.add(problem("FILE_EXTRA", `payload ${commitment} is none that the journal names`), { file: "payloads", payload: commitment });
    }
    return undefined;
  }

  fileProblem(name, files, payloads, isFile) {
    if (!isFile) return problem("FILE_KIND", `${name} is not a plain file`);
    if (this.manifest !== null && !own(files, name)) return problem("FILE_EXTRA", `${name} is not named by the manifest`);
    let got;
    if (name.startsWith("payloads/")) {
      got = name.slice("payloads/".length); // its bytes were held against its name when the journal named it
      if (!payloads.sizes.has(got)) return problem("FILE_EXTRA", `${name} is a payload that the journal does not name`);
    } else if (this.unread.has(name)) return null;
    else got = this.digests.get(name) ?? this.viewDigest(name);
    if (got && got.code) return got;
    return own(files, name) && got !== null && files[name] !== got ? problem("FILE_CHANGED", `the digest of ${name}`, files[name], got) : null;
  }

  /** The digest of a file that nothing above has read, or a problem. */
  viewDigest(name) {
    const whole = sha256();
    const fed = this.folder.feed(name, (chunk) => whole.update(chunk), MAX_VIEW);
    return fed === true ? whole.digest("hex") : fed;
  }
}

/** What file managers leave lying about: told as not part of the evidence. */
function isLitter(name) {
  const names = [
    ".ds_store", ".localized", ".directory", ".appledouble", ".spotlight-v100", ".trashes", ".fseventsd", ".temporaryitems",
    ".apdisk", "__macosx", "icon\r", "thumbs.db", "ehthumbs.db", "desktop.ini",
  ];
  return name.split("/").some((part) => names.includes(part.toLowerCase()) || part.startsWith("._"));
}

const packedName = (number) => (number === 1 ? "payloads.jsonl.gz" : `payloads-${number}.jsonl.gz`);

/** What a well-formed manifest must not say. */
function* manifestProblems({ schema, payloads, files }) {
  const names = Object.keys(files);
  const valued = names.find((name) => ["plan.json", "REPLAY.jsonl", "RECEIPT.json"].includes(name) || name.startsWith("payloads"));
  if (payloads === "none" && valued !== undefined) yield problem("MANIFEST_MALFORMED", "payloads are said to be left out, and files with values are named", null, valued);
  const packed = names.filter((name) => name.startsWith("payloads") && name.endsWith(".gz"));
  const others = schema === "reenact.bundle.v1" ? packed : names.filter((name) => name.startsWith("payloads/"));
  if (others.length) yield problem("MANIFEST_MALFORMED", `a bundle of ${schema} keeps its payloads elsewhere`, null, others[0]);
  if (packed.length > MAX_PACKED_FILES || packed.some((_, index) => !packed.includes(packedName(index + 1)))) {
    yield problem("MANIFEST_MALFORMED", `files of packed payloads are numbered from 1 to at most ${MAX_PACKED_FILES}, without a gap`);
  }
}

/** Takes the lines of a file of packed payloads: { last, digest }, or { last, wrong, line }. */
function readPacked(data, name, last, packed) {
  const damaged = (wrong, line = null) => ({ last, wrong, line });
  if (data.length < 18 || !data.subarray(0, 8).equals(Buffer.from("1f8b080000000000", "hex"))) return damaged(problem("FILE_MALFORMED", `${name} is not gzip without flags and time`));
  let lines, used;
  try {
    const inflated = zlib.inflateRawSync(data.subarray(10), { info: true, maxOutputLength: MAX_PACKED_LINE });
    [lines, used] = [inflated.buffer, inflated.engine.bytesWritten];
  } catch (error) {
    return damaged(problem(error.code === "ERR_BUFFER_TOO_LARGE" ? "FILE_TOO_LARGE" : "FILE_MALFORMED", `${name} cannot be unpacked: ${error.message}`));
  }
  let number = 0;
  for (let start = 0; start < lines.length; ) {
    number += 1;
    const end = lines.indexOf(10, start) < 0 ? lines.length : lines.indexOf(10, start) + 1;
    if (end > MAX_FILE && number > 1) return damaged(problem("FILE_TOO_LARGE", `the lines of one file have at most ${MAX_FILE} bytes`), number);
    const line = lines.subarray(start, end).toString("latin1");
    const [, commitment, encoded] = /^\{"commitment":"([0-9a-f]{64})","envelope":"([^"]*)"\}\n$/.exec(line) ?? [];
    const envelope = encoded === undefined ? null : fromBase64(encoded);
    if (envelope === null) return damaged(problem("FILE_MALFORMED", "a line is not a commitment and its envelope in base64"), number);
    if (commitment <= last) return damaged(problem("FILE_MALFORMED", "the lines are not in the order of their commitments, each once"), number);
    last = commitment;
    packed.set(commitment, envelope);
    start = end;
  }
  const sums = Buffer.alloc(8);
  sums.writeUInt32LE(zlib.crc32(lines), 0);
  sums.writeUInt32LE(lines.length, 4);
  if (!data.subarray(10 + used).equals(sums)) return damaged(problem("FILE_MALFORMED", `${name} does not end with the sums of what it holds`));
  return { last, digest: hashOf(lines) };
}

const VERDICTS = ["holds", "open", "absent", "broken"];

/** The report, with the word of the one of which less is known on its end and on who signed it: it rests on both. */
function weaker(whole, other) {
  const { authenticity, signature } = other;
  const isOpen = whole.completeness === "holds" && other.completeness === "open";
  const report = isOpen ? { ...whole, completeness: "open" } : whole;
  if (VERDICTS.indexOf(authenticity) > VERDICTS.indexOf(report.authenticity)) return { ...report, authenticity, signature };
  return report.authenticity === authenticity && signature.by === "own_key" ? { ...report, signature } : report;
}

function authenticityOf(ring, findings, signature) {
  if (findings.broken.has("authenticity")) return "broken";
  if (ring.unknown || signature.by === null || signature.by === "untrusted_key") return "absent";
  if (signature.covers === "run") return "holds";
  return signature.is_open ? "open" : "absent";
}

function conclude(journal, payloads, signed, findings, anchoring) {
  const { ring } = signed;
  const signature = signed.signature(journal);
  const anchored = anchoring.judge(journal.seal === null ? null : canonical(journal.seal));
  if (journal.isForeign) findings.note("what another runtime calls a capability is not checked: who may sign it is not known here");
  if (ring.unknown > ring.unapproved) findings.note(`no key was there for ${ring.unknown - ring.unapproved} of the signatures: not checked`);
  if (ring.unapproved) findings.note(`the key of ${ring.unapproved} ${ring.unapproved === 1 ? "capability" : "capabilities"} is not trusted for capabilities`);
  if (payloads.counts.withheld) findings.note(`${payloads.counts.withheld} payloads were left out of the export: not checked`);
  const unsound = findings.broken.has("completeness") || (journal.seal !== null && !journal.sealIsSound);
  return {
    run_id: journal.runId,
    integrity: findings.broken.has("integrity") ? "broken" : "holds",
    completeness: unsound ? "broken" : journal.seal === null ? "open" : "holds",
    authenticity: authenticityOf(ring, findings, signature),
    signature,
    anchoring: findings.broken.has("anchoring") ? "contradicted" : anchored.verdict,
    anchor: anchored.anchor,
    first_break: findings.kept[0] ?? null,
    findings: findings.kept,
    broken_in_total: findings.total,
    notes: findings.notes,
    counts: {
      commits: journal.commits, lines: journal.lines, traces: journal.traces.size, attempts: journal.attempts,
      payloads: payloads.sizes.size, ...payloads.counts, signatures: ring.verified,
    },
    status: journal.seal?.status ?? null,
    head: journal.head,
    seal_digest: journal.seal?.seal_digest ?? null,
    prev_store_seal: journal.seal?.prev_store_seal ?? null,
    issuers: [...ring.issuers].sort(),
    seal_is_signed: signature.covers === "run" && signature.by !== "untrusted_key",
  };
}

// -- the command ------------------------------------------------------------------------------------------------------

class CannotRead extends Error {}
class WrongUsage extends Error {}

/** The files of a bundle, in a folder or in a zip. */
function filesAt(target) {
  if (!fs.statSync(target).isDirectory()) {
    const zip = new Zip(target);
    try {
      return new ZippedFolder(zip, zip.top());
    } catch (error) {
      fs.closeSync(zip.fd);
      throw error;
    }
  }
  fs.accessSync(target, fs.constants.R_OK | fs.constants.X_OK);
  return new Folder(path.resolve(target));
}

/** The report on a bundle; `trusted` are public keys by kid that are believed instead of the bundle's own. */
export function verifyBundle(folder, trusted = new Trust(), believed = NOBODY) {
  let files;
  try {
    files = filesAt(folder);
  } catch (error) {
    if (error instanceof CannotRead) throw error;
    throw new CannotRead(`${folder}: ${error.code ?? error.message}; name what \`reenact export\` wrote, or a zip of it`);
  }
  try {
    return new Bundle(files, trusted, believed).verify();
  } finally {
    files.close();
  }
}

export function exitCode(report) {
  const verdicts = [report.integrity, report.completeness, report.authenticity, report.anchoring];
  if (verdicts.includes("broken") || verdicts.includes("contradicted") || report.required_and_absent?.length) return 1;
  return report.completeness === "open" ? 4 : 0;
}

function placeOf(where) {
  const names = { commit: "commit ", line: "line ", offset: "byte ", trace_id: "trace ", step_id: "step ", payload: "payload " };
  const told = Object.entries(where).filter(([, value]) => value !== null).map(([name, value]) => `${names[name] ?? ""}${value}`);
  return told.join(", ") || "the evidence as a whole";
}

const MEANING = {
  integrity: { holds: "every digest and link recomputes", broken: "the evidence contradicts itself" },
  completeness: {
    holds: "the seal's counts and roots are those of the lines",
    open: "no seal: the tail may have been cut",
    broken: "something is missing or added",
  },
  authenticity: { broken: "a signature is missing, or does not fit its key" },
  anchoring: { absent: "no outside witness", contradicted: "the log is not what somebody outside saw of it, or was said to be" },
};

/** What a verdict rests on, in the words of `reenact verify`. */
function meaning(report, aspect) {
  const { signature, anchor, findings } = report;
  const verdict = report[aspect];
  if (aspect === "integrity" && verdict === "broken" && findings.every(({ code }) => code === "FILE_EXTRA")) return "something lies there that is not part of the evidence";
  if (aspect === "anchoring" && anchor !== null && verdict !== "contradicted") return anchorInWords(anchor) || MEANING.anchoring.absent;
  if (aspect === "authenticity" && verdict !== "broken") return signedInWords(signature, verdict);
  return MEANING[aspect][verdict] ?? "";
}

function anchorInWords({ witnesses, known, since, kept, stamped }) {
  const parts = [];
  if (witnesses.length) parts.push(`${witnesses.length} of ${known} witness${known > 1 ? "es" : ""}${since === null ? "" : `, ${since}`}`);
  if (kept.length) parts.push(`the head of size ${Math.max(...kept)} that you kept`);
  parts.push(...stamped.map((time) => `time stamp of ${time}`));
  return parts.length ? `(${parts.join("; ")})` : "";
}

/** What is signed and by whom, in words of which none stands for another. */
function signedInWords(signature, verdict) {
  const { covers, by, kid, unapproved, is_open: isOpen, trusted_as: name } = signature;
  if (covers === "nothing") return unapproved ? "capabilities only, by a key that is not trusted for capabilities" : "no signature could be checked";
  if (by === "untrusted_key") return `signed by ${kid}, which is none of the keys that are trusted for it`;
  const trusted = `signed by ${kid} (${name === null ? "trusted" : `trusted as "${shown(name)}"`})`;
  const who = by === "own_key" ? `by the ${signature.of}'s own key ${kid}, which nobody vouched for` : trusted;
  if (covers === "capabilities") return `capabilities only, ${who}; ${isOpen ? "what came of the calls is signed with the seal" : "results are nobody's word"}`;
  if (verdict === "absent") return unapproved ? `${who}; the capabilities by a key that is not trusted for capabilities` : "not every signature could be checked";
  return covers === "part" ? `${who}, up to commit ${signature.commits}; the rest waits for the seal` : who;
}

function human(report) {
  const lines = [`run           ${report.run_id ?? "unknown"}${report.status ? ` (${report.status})` : ""}`];
  for (const aspect of ["integrity", "completeness", "authenticity", "anchoring"]) {
    lines.push(`${aspect.padEnd(13)} ${report[aspect].padEnd(7)} ${meaning(report, aspect)}`.trimEnd());
  }
  const { counts } = report;
  const kinds = [[counts.erased, "erased"], [counts.archived, "archived"], [counts.lost, "lost"], [counts.withheld, "left out"]];
  const gone = kinds.filter(([number]) => number).map(([number, name]) => `, ${number} ${name}`).join("");
  lines.push(`read          ${counts.commits} commits, ${counts.traces} traces, ${counts.attempts} attempts, ${counts.present} of ${counts.payloads} payloads${gone}`);
  if (report.seal_digest && report.integrity === "holds" && report.completeness === "holds") lines.push(`seal          ${report.seal_digest}`);
  for (const note of report.notes) lines.push(`note          ${note}`);
  const found = report.first_break;
  if (found) {
    lines.push(`first break   ${placeOf(found.where)}`, `              ${found.code}: ${found.what}`);
    if (found.expected !== null) lines.push(`              expected ${found.expected}`);
    if (found.got !== null) lines.push(`              got      ${found.got}`);
  }
  if (report.broken_in_total > 1) lines.push(`and           ${report.broken_in_total - 1} more; --json shows the first hundred`);
  for (const name of report.required_and_absent) lines.push(`required      ${name} is absent`);
  return lines.join("\n");
}

function readBytes(file) {
  try {
    if (fs.statSync(file).size > MAX_FILE) throw new WrongUsage(`${file} has more than ${MAX_FILE} bytes`);
    return fs.readFileSync(file);
  } catch (error) {
    throw error instanceof WrongUsage ? error : new CannotRead(`${file}: ${error.code}`);
  }
}

/** Who is trusted for what: lines NAME PURPOSES KEY, or a JSON object {kid: key}. */
function readTrust(file) {
  const data = readBytes(file);
  const spelled = data.toString("utf8");
  if (!/^[ \t\n\r\v\f]*\{/.test(spelled)) return new Trust(readTrustLines(data, spelled, file), true);
  const says = `${file}: keys are one JSON object, {kid: base64url of the public key}, or lines NAME PURPOSES KEY`;
  try {
    new StrictJson(spelled).document();
  } catch (error) {
    throw new WrongUsage(`${says} (${error.message})`);
  }
  const found = JSON.parse(spelled);
  if (mapOf(anything, aText)(found, "$") !== undefined) throw new WrongUsage(says);
  return new Trust(Object.entries(found).map(([kid, publicKey]) => ({ kid, publicKey, name: null, purposes: PURPOSES, storeId: null })), true);
}

function readTrustLines(data, spelled, file) {
  if (data.length > MAX_TRUST) throw new CannotRead(`${file}: it has more than ${MAX_TRUST} bytes`);
  const refuse = (number, why) => {
    throw new WrongUsage(`${file}, line ${number}: ${why}`);
  };
  const foreign = data.toString("latin1").split("\n").findIndex((line) => !isUtf8(Buffer.from(line, "latin1")));
  if (foreign >= 0) refuse(foreign + 1, "this is not UTF-8");
  const found = [];
  for (const [index, whole] of spelled.split("\n").entries()) {
    const line = whole.replace(/^[ \t\r]+|[ \t\r]+$/g, "");
    if (!line || line.startsWith("#")) continue;
    const key = readTrusted(line, (why) => refuse(index + 1, why));
    const same = found.find(({ publicKey, storeId }) => publicKey === key.publicKey && (storeId === key.storeId || storeId === null || key.storeId === null));
    if (same !== undefined) refuse(index + 1, `the key ${key.kid} stands in line ${same.number} already`);
    found.push({ ...key, number: index + 1 });
  }
  return found.map(({ number, ...key }) => key);
}

/** Told apart from the right, so that a name may have spaces. */
function readTrusted(line, refuse) {
  const [, name, purposes, spelled] = /^(.*[^ \t])[ \t]+([^ \t]+)[ \t]+([^ \t]+)$/s.exec(line.replaceAll("\t", " ")) ?? refuse("a line is NAME  PURPOSES  KEY, as in `acme billing  seals,capabilities  reenact/…+…+…`");
  if (length(name) > 100 || name.includes("  ") || Array.from(name).some((each) => printable(each) !== each)) refuse("a name has 1 to 100 printable characters, and single spaces between its words");
  const given = purposes.split(",");
  const unknown = given.find((each) => !PURPOSES.includes(each));
  if (unknown !== undefined) refuse(`a key is trusted for ${PURPOSES.join(", ")}, joined by commas; '${shown(unknown)}' is none of them`);
  if (new Set(given).size < given.length) refuse("a purpose stands there twice");
  return { ...readPublic(spelled, refuse), name, purposes: given };
}

/** A verifier key, for its store alone, or 32 bytes in base64url, for every store that it signs for. */
function readPublic(spelled, refuse) {
  if (!spelled.includes("+")) {
    const found = decodedKey(spelled) ?? refuse("a key is a verifier key, NAME+ID+BASE64, or the 43 characters of a public key in base64url");
    return { kid: found.kid, publicKey: spelled, storeId: null };
  }
  const key = readVkey(spelled, refuse);
  if (key.kind !== ED25519) refuse(`the verifier key is of kind ${key.kind}; a store signs with Ed25519, kind ${ED25519}`);
  if (!/^reenact\/./s.test(key.name)) refuse(`the name of a store's verifier key is reenact/ and the store's id, not '${shown(key.name)}'`);
  const publicKey = key.raw.toString("base64url");
  return { kid: decodedKey(publicKey).kid, publicKey, storeId: key.name.slice("reenact/".length) };
}

function parseArguments(given) {
  const options = { require: [], json: false, batch: false, keys: null, target: null, believed: { ...NOBODY, kept: [], roots: [] } };
  const rest = [...given];
  while (rest.length) {
    const word = rest.shift();
    if (word === "--json" || word === "--batch") options[word.slice(2)] = true;
    else if (word === "--keys" && rest.length) options.keys = readTrust(rest.shift());
    else if (word === "--witness-policy" && rest.length) options.believed.policy = readPolicy(readBytes(rest.shift()));
    else if (word === "--tsa-ca" && rest.length) options.believed.roots.push(...readRoots(readBytes(rest.shift())));
    else if (word === "--checkpoint" && rest.length) options.believed.kept.push(...readCheckpoints(readBytes(rest.shift())));
    else if (word === "--require" && ["signature", "trust", "anchor"].includes(rest[0])) options.require.push(rest.shift());
    else if (word.startsWith("-") || options.target !== null) throw new WrongUsage(`${word} is not understood`);
    else options.target = word;
  }
  if ((options.target === null) !== options.batch) throw new WrongUsage("name one folder or zip, or --batch");
  if (options.keys !== null) options.require.push("signature");
  return options;
}

function checked(target, { keys, require, believed }) {
  const report = verifyBundle(target, keys ?? undefined, believed);
  const signature = report.authenticity === "holds";
  const holds = { signature, trust: signature && report.signature.by === "trusted_key", anchor: report.anchoring === "holds" };
  report.required_and_absent = [...new Set(require)].filter((name) => !holds[name]);
  return report;
}

/** All of standard input: a pipe in which nothing lies yet may say so instead of waiting. */
function readInput() {
  const parts = [];
  const part = Buffer.alloc(65536);
  for (;;) {
    try {
      const size = fs.readSync(0, part);
      if (size === 0) return Buffer.concat(parts).toString("utf8");
      parts.push(Buffer.from(part.subarray(0, size)));
    } catch (error) {
      if (error.code === "EOF") return Buffer.concat(parts).toString("utf8");
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

/** One line of a batch; one that cannot be read ends none of the others. */
function lineOf(target, options) {
  try {
    const report = checked(target, options);
    return { ...report, exit_code: exitCode(report) };
  } catch (error) {
    if (!(error instanceof CannotRead)) throw error;
    return { error: shown(error.message, SHOWN_MESSAGE), exit_code: 3 };
  }
}

function main(given) {
  try {
    const options = parseArguments(given);
    if (options.batch) {
      for (const target of readInput().split("\n").filter(Boolean)) {
        process.stdout.write(`${JSON.stringify(lineOf(target, options))}\n`);
      }
      return 0;
    }
    const report = checked(options.target, options);
    process.stdout.write(`${options.json ? JSON.stringify(report, null, 2) : human(report)}\n`);
    return exitCode(report);
  } catch (error) {
    if (!(error instanceof WrongUsage) && !(error instanceof CannotRead)) throw error;
    process.stderr.write(`verify.mjs: ${shown(error.message, SHOWN_MESSAGE)}\n`);
    if (error instanceof WrongUsage) process.stderr.write("usage: node verify.mjs DIR|ZIP [--keys FILE] [--require signature|trust|anchor] [--witness-policy FILE] [--checkpoint FILE] [--tsa-ca FILE] [--json]\n");
    return error instanceof WrongUsage ? 2 : 3;
  }
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2));
