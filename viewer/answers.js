/**
 * What other commands found about the runs: for one run the changes that advise or oom checked, for two the answer of diff.
 *
 * @typedef {{first: number, width: number, allocated_bytes: number[], reserved_bytes: number[]}} Curve   bin i begins at the
 *   event (first + i * width) / 2
 * @typedef {{change: string, command: string, hint: string, proof: string, requested_bytes: number, allocated_bytes: number,
 *   reserved_bytes: number, fits: boolean, curve: ?Curve}} Change
 * @typedef {{verdict: string, memory: {short_bytes: number, reserved_bytes: number}, asked: {segment_bytes: number}}} Refused
 * @typedef {{fits: boolean, needed_bytes: number, outside_bytes: number, card_bytes: number, short_bytes: number,
 *   fills_at: number, line: string, notes: string[]}} Verdict
 * @typedef {{what: string, how: string, change: string}} Remedy
 * @typedef {{remedies: Remedy[], as_it_was: Change & {alloc: string}, changes: Change[], cards: {name: string, usable_bytes: number}[],
 *   oom: ?Refused}} WhatIfAnswer
 * @typedef {{causes: {cause: string, bytes: number, evidence: string}[], allocated_delta_bytes: number}} Difference
 * @typedef {{verdict?: Verdict, what_if?: ?WhatIfAnswer, diff?: ?Difference, sentence?: string}} Answers
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

/**
 * Returns the bytes that the run reserved as it was; of one that ended out of memory, with what was refused.
 * @param {WhatIfAnswer} whatIf
 */
export function bytesBefore({ as_it_was: before, oom }) {
    return oom ? oom.memory.reserved_bytes + oom.asked.segment_bytes : before.reserved_bytes;
}

/**
 * @param {Change} change
 * @param {WhatIfAnswer} whatIf
 */
export function savingOf(change, whatIf) {
    return bytesBefore(whatIf) - peakOfChange(change);
}

/**
 * Returns the changes that save memory, the largest saving first.
 * @param {WhatIfAnswer} whatIf
 */
export function savingChanges(whatIf) {
    return whatIf.changes
        .filter((change) => change.fits && savingOf(change, whatIf) > 0)
        .sort((a, b) => savingOf(b, whatIf) - savingOf(a, whatIf));
}

/**
 * Returns the change that a remedy is, if that is listed with what it saves.
 * @param {Remedy} remedy
 * @param {WhatIfAnswer} whatIf
 */
export function changeOfRemedy(remedy, whatIf) {
    return savingChanges(whatIf).find(({ change }) => change === remedy.change) ?? null;
}

/**
 * Returns the remedy that memtrace advise or memtrace oom prints first, of those that say what to write; null: there is none.
 * @param {WhatIfAnswer} whatIf
 */
export function firstRemedy(whatIf) {
    return whatIf.remedies.find((remedy) => remedy.how || changeOfRemedy(remedy, whatIf)) ?? null;
}

/**
 * Returns the remedies that are neither first nor a listed change.
 * @param {WhatIfAnswer} whatIf
 */
export function furtherRemedies(whatIf) {
    const first = firstRemedy(whatIf);
    return whatIf.remedies.filter((remedy) => remedy !== first && !changeOfRemedy(remedy, whatIf));
}

/**
 * Returns the line to copy: a command, or the hint of what to write.
 * @param {Change} change
 */
export function lineOf({ command, hint }) {
    return command || hint;
}
