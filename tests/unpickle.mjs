// Usage: node unpickle.mjs PICKLE JSON
// Reads a pickle as a web page does, with a stack of values and one of marks, batches pushed by spreading, and compares
// it with the same data in JSON.
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

function unpickle(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const stack = [], marks = [], memo = [];
  let at = 0;
  const byte = () => bytes[at++];
  const word = (size) => {
    at += size;
    return size === 4 ? view.getInt32(at - 4, true) : view.getUint16(at - 2, true);
  };
  const text = (length) => decoder.decode(bytes.subarray(at, (at += length)));
  const long = (length) => {
    let value = 0n;
    for (let i = 0; i < length; i++) value |= BigInt(bytes[at++]) << BigInt(8 * i);
    const number = Number(BigInt.asIntN(8 * length, value));
    if (!Number.isSafeInteger(number)) throw new Error(`${value} is no exact number`);
    return number;
  };
  const operations = {
    0x80: () => { if (byte() !== 4) throw new Error("not of protocol 4"); },
    "(": () => { marks.push(stack.length); },
    "}": () => { stack.push({}); },
    "]": () => { stack.push([]); },
    u: () => {
      const items = stack.splice(marks.pop()), dict = stack.at(-1);
      for (let i = 0; i < items.length; i += 2) dict[items[i]] = items[i + 1];
    },
    e: () => {
      const items = stack.splice(marks.pop());
      if (items.length > 1000) throw new Error(`a batch of ${items.length}`);
      stack.at(-1).push(...items);
    },
    K: () => { stack.push(byte()); },
    M: () => { stack.push(word(2)); },
    J: () => { stack.push(word(4)); },
    0x8a: () => { stack.push(long(byte())); },
    0x88: () => { stack.push(true); },
    0x89: () => { stack.push(false); },
    0x8c: () => { stack.push(text(byte())); },
    X: () => { stack.push(text(word(4))); },
    0x94: () => { memo.push(stack.at(-1)); },
    h: () => { stack.push(memo[byte()]); },
    j: () => { stack.push(memo[word(4)]); },
  };
  const table = new Map(Object.entries(operations).map(([key, run]) => [/^\d+$/.test(key) ? Number(key) : key.charCodeAt(0), run]));
  for (let code = byte(); code !== ".".charCodeAt(0); code = byte()) {
    const run = table.get(code);
    if (run === undefined) throw new Error(`opcode ${code} at ${at - 1}`);
    run();
  }
  if (stack.length !== 1 || marks.length !== 0 || at !== bytes.length) throw new Error("the pickle does not end as one value");
  return stack[0];
}

const [, , pickle, json] = process.argv;
const fromPickle = unpickle(readFileSync(pickle)), fromJson = JSON.parse(readFileSync(json, "utf8"));
if (!isDeepStrictEqual(fromPickle, fromJson)) throw new Error("the pickle and the JSON differ");

// What the page refuses: categories of which none is "unknown", and frames whose names are no texts.
const entries = fromPickle.device_traces.flat();
const categories = new Set(entries.filter((entry) => "category" in entry).map((entry) => entry.category));
if (categories.size > 0 && !categories.has("unknown")) throw new Error("no category is unknown");
for (const entry of entries)
  for (const frame of entry.frames)
    if (typeof frame.name !== "string" || typeof frame.filename !== "string") throw new Error("a frame without a name");
console.log(`${entries.length} entries`);
