/**
 * The live bytes at a moment, by category, and the highest moment of a range of events: in microseconds, at any zoom.
 * A category is here what a colour stands for: a role, or a category of the trace (colors.js).
 *
 * Live bytes are stored for every LEAF events (`checkpoints`); from there, changes are replayed. Above the leaves is a
 * tree of highest moments. So a range takes two replays and a walk over a few nodes.
 *
 * A *moment* is an event, and stands for the state after it. A moment below 0 is outside of the run, where nothing is
 * live (axis.js).
 *
 * @typedef {Object} Memory   the part of a run that this file needs
 * @property {Int32Array} changes   by event: row of the sizes + 1 for an allocation, -(row + 1) for a free, else 0
 * @property {Uint8Array} categories   by event: the category of its block
 * @property {Uint8Array} sources   by event: the same, but of an event that gave its block another category, the one before
 * @property {Float64Array} changeBytes   [rows of sizes + change]: the block bytes that it adds
 * @property {number} categoryCount
 * @property {Float64Array} checkpoints   [leaf * categoryCount + category]: bytes before the leaf's first event
 *
 * @typedef {Pick<Memory, "changes" | "categories" | "sources">} Changes
 * @typedef {{bytes: number, moment: number}} Highest   the highest of some moments, and its bytes
 *
 * @typedef {Object} PeakIndex   the tree of highest moments
 * @property {Float64Array} before   by leaf: the bytes before its first event
 * @property {Float64Array[]} bytes   by level, from the leaves up, and by node: of the highest moment below it
 * @property {Uint32Array[]} moment   the same: that moment
 */
import { lastOf } from "./marks.js";

export const LEAF = 64;
const FANOUT = 16;

/**
 * Returns the bytes that each change adds, by [rows + change]: changes go from -rows to rows.
 * @param {Float64Array} sizeBytes
 */
function bytesOfChanges(sizeBytes) {
    const rows = sizeBytes.length;
    const bytes = new Float64Array(2 * rows + 1);
    for (let row = 0; row < rows; row++) {
        bytes[rows + 1 + row] = sizeBytes[row];
        bytes[rows - 1 - row] = -sizeBytes[row];
    }
    return bytes;
}

/**
 * Returns the bytes by category before every LEAFth event.
 * @param {Changes} events
 * @param {Float64Array} changeBytes
 * @param {number} categoryCount
 */
function makeCheckpoints({ changes, categories, sources }, changeBytes, categoryCount) {
    const leaves = Math.ceil(changes.length / LEAF) + 1;
    const checkpoints = new Float64Array(leaves * categoryCount);
    const now = new Float64Array(categoryCount);
    const middle = changeBytes.length >> 1;
    for (let leaf = 0; leaf < leaves; leaf++) {
        checkpoints.set(now, leaf * categoryCount);
        const end = Math.min(changes.length, (leaf + 1) * LEAF);
        for (let event = leaf * LEAF; event < end; event++) {
            const bytes = changeBytes[middle + changes[event]];
            now[categories[event]] += bytes;
            if (sources[event] !== categories[event]) now[sources[event]] -= bytes;
        }
    }
    return checkpoints;
}

/**
 * @param {{changes: Int32Array, categories: Uint8Array, sources: Uint8Array}} events
 * @param {Float64Array} sizeBytes
 * @param {number} categoryCount
 * @returns {Memory}
 */
export function makeMemory(events, sizeBytes, categoryCount) {
    const changeBytes = bytesOfChanges(sizeBytes);
    const checkpoints = makeCheckpoints(events, changeBytes, categoryCount);
    return { ...events, changeBytes, categoryCount, checkpoints };
}

/**
 * Returns the highest sum of all changes, with `sizeBytes` as the bytes of each row of the sizes.
 * @param {Changes} events
 * @param {Float64Array} sizeBytes
 */
export function highestSum({ changes, categories, sources }, sizeBytes) {
    const changeBytes = bytesOfChanges(sizeBytes);
    const middle = changeBytes.length >> 1;
    const peak = { bytes: 0, event: -1 };
    let now = 0;
    for (let event = 0; event < changes.length; event++) {
        if (sources[event] === categories[event]) now += changeBytes[middle + changes[event]];
        if (now <= peak.bytes) continue;
        peak.bytes = now;
        peak.event = event;
    }
    return peak;
}

/**
 * Sets out[at + category] to the bytes live at the moment.
 * @param {Memory} memory
 * @param {number} moment
 * @param {Float64Array} out
 * @param {number} [at]
 */
export function compositionAt(memory, moment, out, at = 0) {
    const { changes, categories, sources, changeBytes, categoryCount, checkpoints } = memory;
    const middle = changeBytes.length >> 1;
    if (moment < 0) return out.fill(0, at, at + categoryCount);
    const leaf = Math.floor(moment / LEAF);
    for (let c = 0; c < categoryCount; c++) out[at + c] = checkpoints[leaf * categoryCount + c];
    for (let event = leaf * LEAF; event <= moment; event++) {
        const bytes = changeBytes[middle + changes[event]];
        out[at + categories[event]] += bytes;
        if (sources[event] !== categories[event]) out[at + sources[event]] -= bytes;
    }
    return out;
}

/**
 * Replays events first to last, all in one leaf, and raises `highest`.
 * @param {Memory} memory
 * @param {PeakIndex} index
 * @param {number} first
 * @param {number} last
 * @param {Highest} highest
 */
function raiseInLeaf(memory, index, first, last, highest) {
    const { changes, categories, sources, changeBytes } = memory;
    const middle = changeBytes.length >> 1;
    const leaf = Math.floor(first / LEAF);
    let bytes = index.before[leaf];
    for (let event = leaf * LEAF; event <= last; event++) {
        if (sources[event] === categories[event]) bytes += changeBytes[middle + changes[event]];
        if (event < first || bytes < highest.bytes || (bytes === highest.bytes && event > highest.moment)) continue;
        highest.bytes = bytes;
        highest.moment = event;
    }
}

/**
 * @param {Memory} memory
 * @param {PeakIndex} index
 * @param {number} leaves
 */
function makeLeaves(memory, index, leaves) {
    const highest = { bytes: -1, moment: -1 };
    for (let leaf = 0; leaf < leaves; leaf++) {
        highest.bytes = -1;
        raiseInLeaf(memory, index, leaf * LEAF, Math.min((leaf + 1) * LEAF, memory.changes.length) - 1, highest);
        index.bytes[0][leaf] = highest.bytes;
        index.moment[0][leaf] = highest.moment;
    }
}

/**
 * @param {PeakIndex} index
 * @param {number} below
 */
function makeUpperLevel(index, below) {
    const count = Math.ceil(index.bytes[below].length / FANOUT);
    const bytes = new Float64Array(count).fill(-1);
    const moment = new Uint32Array(count);
    index.bytes[below].forEach((value, i) => {
        const node = Math.floor(i / FANOUT);
        if (value <= bytes[node]) return;
        bytes[node] = value;
        moment[node] = index.moment[below][i];
    });
    index.bytes.push(bytes);
    index.moment.push(moment);
}

/**
 * Returns the tree of highest moments.
 * @param {Memory} memory
 */
export function makePeakIndex(memory) {
    const { changes, categoryCount, checkpoints } = memory;
    const leaves = Math.ceil(changes.length / LEAF);
    const before = new Float64Array(leaves);
    for (let leaf = 0; leaf < leaves; leaf++)
        for (let c = 0; c < categoryCount; c++) before[leaf] += checkpoints[leaf * categoryCount + c];
    const index = { before, bytes: [new Float64Array(leaves)], moment: [new Uint32Array(leaves)] };
    makeLeaves(memory, index, leaves);
    while (lastOf(index.bytes).length > FANOUT) makeUpperLevel(index, index.bytes.length - 1);
    return index;
}

/**
 * Raises `highest` by the whole leaves `first` to `last`, and climbs while a node lies inside the range.
 * @param {PeakIndex} index
 * @param {number} first
 * @param {number} last
 * @param {Highest} highest
 */
function raiseByLeaves(index, first, last, highest) {
    let level = 0;
    while (first <= last) {
        const bytes = index.bytes[level];
        const moment = index.moment[level];
        const top = level + 1 === index.bytes.length;
        while (first <= last && (top || first % FANOUT !== 0)) raiseByNode(bytes, moment, first++, highest);
        while (first <= last && (last + 1) % FANOUT !== 0) raiseByNode(bytes, moment, last--, highest);
        first = Math.floor(first / FANOUT);
        last = Math.floor((last + 1) / FANOUT) - 1;
        level++;
    }
}

/**
 * @param {Float64Array} bytes
 * @param {Uint32Array} moment
 * @param {number} node
 * @param {Highest} highest
 */
function raiseByNode(bytes, moment, node, highest) {
    // Takes the earliest of equal moments, since nodes are visited from both ends.
    if (bytes[node] < highest.bytes || (bytes[node] === highest.bytes && moment[node] >= highest.moment)) return;
    highest.bytes = bytes[node];
    highest.moment = moment[node];
}

/**
 * Returns the highest of the moments first to last (first >= -1), and its bytes; the earliest of equal ones.
 * @param {Memory} memory
 * @param {PeakIndex} index
 * @param {number} first
 * @param {number} last
 */
export function findHighest(memory, index, first, last) {
    const highest = { bytes: first < 0 ? 0 : -1, moment: first };
    first = Math.max(0, first);
    if (last < first) return highest;
    const firstLeaf = Math.floor(first / LEAF);
    const lastLeaf = Math.floor(last / LEAF);
    if (firstLeaf === lastLeaf) {
        raiseInLeaf(memory, index, first, last, highest);
        return highest;
    }
    raiseByLeaves(index, firstLeaf + 1, lastLeaf - 1, highest);
    // Replays the leaves at the ends only if they may have more bytes, or as many and earlier.
    if (index.bytes[0][firstLeaf] >= highest.bytes)
        raiseInLeaf(memory, index, first, (firstLeaf + 1) * LEAF - 1, highest);
    if (index.bytes[0][lastLeaf] > highest.bytes) raiseInLeaf(memory, index, lastLeaf * LEAF, last, highest);
    return highest;
}
