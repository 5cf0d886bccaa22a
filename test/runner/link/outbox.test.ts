import { Database } from "bun:sqlite"
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { OutboundFrame } from "../../../src/wire/frames/index.ts"
import { openOutboxStore } from "../../../src/runner/link/outbox-store.ts"
import { createOutbox, type Outbox, type OutboxStore } from "../../../src/runner/link/outbox.ts"

/** A store in memory that outlives an outbox, can fail like a full disk, and can be restored to an earlier copy. */
const createMemoryStore = () => {
  let disk: { headSeq: number; lines: readonly string[] } = { headSeq: 1, lines: [] }
  let full = false
  const guard = () => {
    if (full) throw new Error("the disk is full")
  }
  const store: OutboxStore = {
    load: () => disk,
    append: (headSeq, seq, lines) => {
      guard()
      const known = disk.lines.slice(0, seq - disk.headSeq)
      disk = { headSeq, lines: [...known, ...lines].slice(headSeq - disk.headSeq) }
    },
    rewrite: (headSeq, seq, lines) => {
      guard()
      const kept = disk.lines.slice(
        Math.max(0, headSeq - disk.headSeq),
        Math.max(0, seq - disk.headSeq),
      )
      disk = { headSeq, lines: [...kept, ...lines] }
    },
  }
  return {
    store,
    copy: () => disk,
    restore: (copy: typeof disk) => {
      disk = copy
    },
    setFull: (value: boolean) => {
      full = value
    },
  }
}

const open = (store: OutboxStore, maxBytes = 1e9): Outbox =>
  createOutbox({ store, maxBytes, onStoreFailure: () => {} })

const delta = (text: string, turnId = "t1", partId = "p1"): OutboundFrame => ({
  type: "message.part.text-delta",
  turnId,
  partId,
  delta: text,
})
const complete = (messageId: string): OutboundFrame => ({ type: "complete", messageId })
const status = (state: "idle" | "thinking"): OutboundFrame => ({
  type: "agentStatus",
  status: state,
})

const sendAll = (outbox: Outbox): { seq: number; frame: OutboundFrame }[] => {
  const sent: { seq: number; frame: OutboundFrame }[] = []
  for (let next = outbox.next(); next; next = outbox.next()) {
    sent.push({ seq: next.seq, frame: JSON.parse(next.line) as OutboundFrame })
  }
  return sent
}

describe("frames in the outbox", () => {
  test("a frame is numbered by its place, and is sent only after it is stored", () => {
    const outbox = open(createMemoryStore().store)
    outbox.append(complete("a"))
    expect(outbox.next()).toBeUndefined()
    outbox.commit()
    outbox.append(complete("b"))
    outbox.commit()
    expect(sendAll(outbox).map(({ seq }) => seq)).toEqual([1, 2])
  })

  test("a frame is kept until it is acknowledged, and sent again on the next connection", () => {
    const outbox = open(createMemoryStore().store)
    for (const id of ["a", "b", "c"]) outbox.append(complete(id))
    outbox.commit()
    sendAll(outbox)
    outbox.acknowledge(1)
    outbox.resume(2)
    expect(sendAll(outbox)).toEqual([{ seq: 3, frame: complete("c") }])
  })

  test("a frame of an earlier process is sent by the next process under the same number", () => {
    const { store } = createMemoryStore()
    const first = open(store)
    for (const id of ["a", "b"]) first.append(complete(id))
    first.commit()
    sendAll(first)
    const second = open(store)
    second.resume(1)
    expect(sendAll(second)).toEqual([{ seq: 2, frame: complete("b") }])
  })

  test("a frame created after the state directory was restored from an old copy gets an unused number", () => {
    const disk = createMemoryStore()
    const first = open(disk.store)
    first.append(complete("a"))
    first.commit()
    const copy = disk.copy()
    for (const id of ["b", "c", "d"]) first.append(complete(id))
    first.commit()
    sendAll(first)
    disk.restore(copy)
    const second = open(disk.store)
    second.append(complete("new"))
    second.commit()
    second.resume(4)
    expect(sendAll(second)).toEqual([{ seq: 5, frame: complete("new") }])
  })
})

describe("deltas of one part", () => {
  test("deltas of one part within one commit become one frame", () => {
    const outbox = open(createMemoryStore().store)
    for (const text of ["a", "b", "c"]) outbox.append(delta(text))
    outbox.append(delta("x", "t2"))
    outbox.commit()
    expect(sendAll(outbox).map(({ frame }) => frame)).toEqual([delta("abc"), delta("x", "t2")])
  })

  test("deltas of different commits stay separate frames, since they may have been sent", () => {
    const outbox = open(createMemoryStore().store)
    outbox.append(delta("a"))
    outbox.commit()
    outbox.append(delta("b"))
    outbox.commit()
    expect(sendAll(outbox)).toHaveLength(2)
  })
})

describe("an outbox at its size limit", () => {
  test("a full outbox merges unsent deltas and keeps every frame that ends a turn or a prompt", () => {
    const outbox = open(createMemoryStore().store, 2000)
    for (let turn = 0; turn < 5; turn += 1) {
      for (let index = 0; index < 20; index += 1) {
        outbox.append(delta(`${index},`, `t${turn}`))
        outbox.append(status(index % 2 ? "idle" : "thinking"))
        outbox.commit()
      }
      outbox.append({ type: "message.finalize", turnId: `t${turn}`, reason: "end_turn" })
      outbox.append(complete(`m${turn}`))
      outbox.commit()
    }
    outbox.resume(0)
    const frames = sendAll(outbox).map(({ frame }) => frame)
    const expected = Array.from({ length: 20 }, (_, index) => `${index},`).join("")
    for (let turn = 0; turn < 5; turn += 1) {
      const deltas = frames.flatMap((frame) =>
        frame.type === "message.part.text-delta" && frame.turnId === `t${turn}`
          ? [frame.delta]
          : [],
      )
      expect(deltas.join("")).toBe(expected)
    }
    expect(frames.filter(({ type }) => type === "message.finalize")).toHaveLength(5)
    expect(frames.filter(({ type }) => type === "complete")).toHaveLength(5)
    expect(outbox.stats().merged).toBeGreaterThan(50)
  })

  test("a full outbox never changes a frame that was sent", () => {
    const outbox = open(createMemoryStore().store, 300)
    outbox.append(delta("a"))
    outbox.commit()
    const [sent] = sendAll(outbox)
    for (let index = 0; index < 50; index += 1) {
      outbox.append(delta("b"))
      outbox.commit()
    }
    outbox.resume(0)
    expect(sendAll(outbox)[0]).toEqual(sent ?? { seq: 0, frame: complete("") })
  })

  test("an outbox with nothing to merge is full until a frame is acknowledged", () => {
    const outbox = open(createMemoryStore().store, 300)
    for (let index = 0; index < 20; index += 1) outbox.append(complete(`m${index}`))
    outbox.commit()
    expect(outbox.isFull()).toBeTrue()
    sendAll(outbox)
    outbox.acknowledge(19)
    expect(outbox.isFull()).toBeFalse()
  })
})

test("on a full disk frames are still sent, and are stored when there is space again", () => {
  const disk = createMemoryStore()
  let failures = 0
  const outbox = createOutbox({
    store: disk.store,
    maxBytes: 1e9,
    onStoreFailure: () => {
      failures += 1
    },
  })
  disk.setFull(true)
  outbox.append(complete("a"))
  outbox.commit()
  expect(sendAll(outbox)).toHaveLength(1)
  expect(failures).toBe(1)
  disk.setFull(false)
  outbox.append(complete("b"))
  outbox.commit()
  expect(disk.copy().lines).toHaveLength(2)
})

/**
 * Random sequences of frames, commits, sends, deliveries, acknowledgements, cut connections and crashes. The session
 * agent stores every frame with a new number; its view must contain every frame once, in order.
 */
describe("random sequences of cuts, acknowledgements, crashes and reconnects", () => {
  type Step = "frame" | "delta" | "commit" | "send" | "deliver" | "ack" | "cut" | "crash"
  const steps = fc.array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom<Step>("frame", "delta") },
      { weight: 6, arbitrary: fc.constantFrom<Step>("commit", "send") },
      { weight: 5, arbitrary: fc.constantFrom<Step>("deliver", "ack") },
      { weight: 1, arbitrary: fc.constantFrom<Step>("cut", "crash") },
    ),
    { maxLength: 120, size: "max" },
  )

  const runPlan = (plan: readonly Step[], store: OutboxStore, maxBytes: number) => {
    let outbox = open(store, maxBytes)
    const stored: OutboundFrame[] = []
    let lastSeq = 0
    let wire: { seq: number; line: string }[] = []
    let acks: number[] = []
    const expected: string[] = []
    let made = 0
    const connect = () => {
      wire = []
      acks = []
      outbox.resume(lastSeq)
    }
    const deliver = () => {
      const arrived = wire.shift()
      if (!arrived) return
      if (arrived.seq <= lastSeq) return
      expect(arrived.seq).toBe(lastSeq + 1)
      lastSeq = arrived.seq
      stored.push(JSON.parse(arrived.line) as OutboundFrame)
      acks.push(arrived.seq)
    }
    const perform: Record<Step, () => void> = {
      frame: () => {
        made += 1
        expected.push(`<${made}>`)
        outbox.append(complete(String(made)))
      },
      delta: () => {
        made += 1
        expected.push(`${made};`)
        outbox.append(delta(`${made};`, "t", "p"))
      },
      commit: () => outbox.commit(),
      send: () => {
        const next = outbox.next()
        if (next) wire.push(next)
      },
      deliver,
      ack: () => {
        const seq = acks.shift()
        if (seq !== undefined) outbox.acknowledge(seq)
      },
      cut: connect,
      crash: () => {
        // Frames that are not stored are lost in a crash; their producer creates them again, so they are committed here.
        outbox.commit()
        outbox = open(store, maxBytes)
        connect()
      },
    }
    connect()
    for (const step of plan) perform[step]()
    connect()
    outbox.commit()
    for (let next = outbox.next(); next; next = outbox.next()) wire.push(next)
    while (wire.length > 0) deliver()
    const seen = stored.map((frame) =>
      frame.type === "complete" ? `<${frame.messageId}>` : "delta" in frame ? frame.delta : "?",
    )
    if (maxBytes > 1e6) return expect(seen.join("")).toBe(expected.join(""))
    // At the size limit a delta is merged with the earlier delta of its turn, past frames that are not of that turn:
    // deltas and other frames each keep their own order and lose nothing.
    const apart = (text: string) => [text.replaceAll(/<\d+>/g, ""), text.replaceAll(/\d+;/g, "")]
    expect(apart(seen.join(""))).toEqual(apart(expected.join("")))
  }

  test("the session agent stores every frame once and in order, with a store in memory", () => {
    fc.assert(
      fc.property(steps, fc.constantFrom(1e9, 400), (plan, maxBytes) =>
        runPlan(plan, createMemoryStore().store, maxBytes),
      ),
      { numRuns: 10_000 },
    )
  })

  test("the session agent stores every frame once and in order, with a store in SQLite", () => {
    fc.assert(
      fc.property(steps, fc.constantFrom(1e9, 400), (plan, maxBytes) => {
        const db = new Database(":memory:", { strict: true })
        db.run("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT")
        // A store caches where the queue begins, so every call opens the store again like a new process.
        const reopening: OutboxStore = {
          load: () => openOutboxStore(db).load(),
          append: (...given) => openOutboxStore(db).append(...given),
          rewrite: (...given) => openOutboxStore(db).rewrite(...given),
        }
        runPlan(plan, reopening, maxBytes)
        db.close()
      }),
      { numRuns: 500 },
    )
  })
})

describe("data stored in the transaction of the frames", () => {
  test("data in the same transaction is stored with the frames, and written again after a failed write", () => {
    const db = new Database(":memory:", { strict: true })
    db.run("CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT")
    db.run("CREATE TABLE notes (text TEXT NOT NULL) STRICT")
    let breaks = true
    let done = 0
    const store = openOutboxStore(db, {
      write: () => {
        db.run("INSERT INTO notes VALUES ('a turn')")
        if (breaks) throw new Error("the disk is full")
      },
      done: () => {
        done += 1
      },
    })
    const outbox = open(store)
    outbox.append(complete("a"))
    outbox.commit()
    expect(db.query("SELECT * FROM notes").all()).toHaveLength(0)
    expect(openOutboxStore(db).load().lines).toHaveLength(0)
    expect(done).toBe(0)
    breaks = false
    outbox.append(complete("b"))
    outbox.commit()
    expect(db.query("SELECT * FROM notes").all()).toHaveLength(1)
    expect(openOutboxStore(db).load().lines).toHaveLength(2)
    expect(done).toBe(1)
  })
})
