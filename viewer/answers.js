/**
 * What other commands found about the runs: for one run the changes that advise or oom checked, for two the answer of diff.
 *
 * @typedef {{first: number, width: number, allocated_bytes: number[], reserved_bytes: number[]}} Curve   bin i begins at the
 *   event (first + i * width) / 2
 * @typedef {{change: string, command: string, hint: string, proof: string, requested_bytes: number, allocated_bytes: number,
 *   reserved_bytes: number, fits: boolean, curve: ?Curve}} Change
 * @typedef {{verdict: string, memory: {short_bytes: number}}} Refused
 * @typedef {{as_it_was: Change & {alloc: string}, changes: Change[], cards: {name: string, usable_bytes: number}[],
 *   oom: ?Refused}} WhatIfAnswer
 * @typedef {{causes: {cause: string, bytes: number, evidence: string}[], allocated_delta_bytes: number}} Difference
 * @typedef {{what_if?: ?WhatIfAnswer, diff?: ?Difference, sentence?: string}} Answers
 */
import { inflate } from "./decode.js";

/**
 * Returns the JSON of a chunk, and removes it; null if the page has none.
 * @param {string} id
 */
export async function takeJson(id) {
    const chunk = document.getElementById(id);
    if (!chunk) return null;
    chunk.remove();
    return JSON.parse(new TextDecoder().decode(await inflate(chunk.textContent ?? "")));
}

/**
 * Returns the event at which bin i of a curve begins, in a run of so many events.
 * @param {Curve} curve
 * @param {number} i
 * @param {number} eventCount
 */
export function eventOfBin({ first, width }, i, eventCount) {
    return Math.min(eventCount, Math.max(0, Math.floor((first + i * width + 1) / 2)));
}

/**
 * Returns the bytes that a run reserves at most with a change; of what is only known to suffice, those.
 * @param {Change} change
 */
export function peakOfChange({ reserved_bytes: reserved, allocated_bytes: allocated }) {
    return Math.max(reserved, allocated);
}
