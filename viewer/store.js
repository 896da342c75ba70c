/**
 * A run, prepared for the questions of the page. The worker builds it once from the decoded tables, each as soon as it
 * has arrived. The blocks go to the page first, which draws the map while the rest is built.
 *
 * Everything in it is a plain object of numbers, texts and typed arrays, so it moves to the page without a copy. Events
 * and moments are positions in the run. Addresses are *packed*: segments keep their order, and the gaps between them
 * are closed. On a real card the gaps can be terabytes.
 *
 * @typedef {Object} Run
 * @property {RunInfo} info   the run's entry in the description
 * @property {number} eventCount
 * @property {Float64Array} time   of each event, ns, never falling; then the time of the run's end
 * @property {TableColumns} knots   columns as in docs/page.md
 * @property {boolean} timed   true if the times are exact, and not interpolated between knots
 * @property {TableColumns} labels   columns as in docs/page.md, and `color`: the position of its colour (colors.js)
 * @property {{requested: Float64Array, block: Float64Array}} sizes
 * @property {Blocks} blocks
 * @property {Segments} segments
 * @property {Parts} parts   of segments with memory
 * @property {number} addressBytes   the packed addresses are below this
 * @property {{event: Float64Array, bytes: Float64Array}} reserved   the reserved bytes from these events on
 * @property {Record<string, Peak>} peaks   by measure, computed from the blocks
 * @property {Lanes} lanes   program phases, steps, phases, spans, kernels as intervals (marks.js)
 * @property {Memory} memory
 * @property {PeakIndex} peakIndex
 *
 * @typedef {Object} Blocks
 * @property {number} count
 * @property {NumberArray} alloc   event
 * @property {NumberArray} free    event; the run's event count for a block that was not freed
 * @property {Float64Array} low    packed address of the first byte
 * @property {NumberArray} segment
 * @property {NumberArray} size   row of sizes
 * @property {NumberArray} label
 * @property {Uint8Array} isUsed   by label, 1 if any block has it
 *
 * @typedef {{bytes: number, event: number}} Peak   event -1: nothing was ever live
 * @typedef {{event: Float64Array, bytes: Float64Array}} Reserved
 *
 * @typedef {Object} Parts
 * @property {number} count
 * @property {Float64Array} low   packed address of the first byte
 * @property {NumberArray} bytes
 * @property {NumberArray} mapped   event
 * @property {NumberArray} life   0: until the run ended
 *
 * @typedef {Parts & {address: NumberArray}} Segments
 *
 * @typedef {Omit<Run, "time" | "memory" | "peakIndex" | "peaks" | "lanes">} BuiltRun   without what follows
 * @typedef {Changes & {sizes: Run["sizes"], reservedPeak: Peak}} BuiltEvents
 */
import { COLOR_KEYS, colorsOf, colorsOfLabels } from "./colors.js";
import { highestSum, makeMemory, makePeakIndex } from "./composition.js";
import { lastOf, makeLanes } from "./marks.js";

/**
 * Returns a table that every run has.
 * @param {TableReader} table
 * @param {string} name
 */
async function needed(table, name) {
    const columns = await table(name);
    if (!columns) throw new Error(`the page is damaged: it has no table ${name}`);
    return columns;
}

/**
 * Returns the packed address of each segment. Segments that had the same address at different times still have.
 * @param {TableColumns} segments
 * @param {number} count
 */
function packSegments(segments, count) {
    const byAddress = Array.from({ length: count }, (_, i) => i).sort(
        (a, b) => segments.address[a] - segments.address[b],
    );
    const low = new Float64Array(count);
    let packedEnd = 0;
    let end = 0; // the end of the packed segments so far, as a real address
    for (const i of byAddress) {
        const address = segments.address[i];
        const begin = address > end ? packedEnd : packedEnd - (end - address);
        low[i] = begin;
        packedEnd = Math.max(packedEnd, begin + segments.bytes[i]);
        end = Math.max(end, address + segments.bytes[i]);
    }
    return { low, addressBytes: packedEnd };
}

/**
 * Returns the parts of segments with memory; without a table of parts, each segment as a whole.
 * @param {TableColumns | undefined} parts
 * @param {TableColumns} segments
 * @param {Float64Array} segmentLow
 */
function makeParts(parts, segments, segmentLow) {
    if (!parts) {
        const { bytes, mapped, life } = segments;
        return { count: segmentLow.length, low: segmentLow, bytes, mapped, life };
    }
    checkRows("part of segment", parts.segment, segmentLow.length);
    const count = parts.segment.length;
    const low = new Float64Array(count);
    for (let i = 0; i < count; i++) low[i] = segmentLow[parts.segment[i]] + parts.offset[i];
    return { count, low, bytes: parts.bytes, mapped: parts.mapped, life: parts.life };
}

/**
 * Returns the events at which reserved memory changes, and the bytes from then on.
 * @param {Parts} parts
 * @param {number} eventCount
 */
function reservedOverTime(parts, eventCount) {
    const changes = [];
    for (let i = 0; i < parts.count; i++) {
        changes.push([parts.mapped[i], parts.bytes[i]]);
        if (parts.life[i] > 0) changes.push([parts.mapped[i] + parts.life[i], -parts.bytes[i]]);
    }
    changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]); // of one event, releases come first
    const reserved = { event: new Float64Array(changes.length), bytes: new Float64Array(changes.length) };
    let now = 0;
    let peak = { bytes: 0, event: -1 };
    changes.forEach(([event, bytes], i) => {
        now += bytes;
        reserved.event[i] = Math.min(event, eventCount);
        reserved.bytes[i] = now;
        if (now > peak.bytes) peak = { bytes: now, event };
    });
    return { reserved, peak };
}

/**
 * @param {string} what
 * @param {ArrayLike<number>} column
 * @param {number} rows
 */
function checkRows(what, column, rows) {
    for (let i = 0; i < column.length; i++)
        if (column[i] >= rows) throw new Error(`the page is damaged: a ${what} ${column[i]} of ${rows}`);
}

/**
 * Returns the change by each event, of the blocks whose label passes a mask. A block whose label changed is a row for each of its
 * labels: the event at which one ends and the next begins adds its bytes to a category, and takes them from another.
 * @param {Blocks} blocks
 * @param {TableColumns} labels
 * @param {number} eventCount
 * @param {Mask} [mask]
 */
export function changesOf({ count, alloc, free, size, label }, { color }, eventCount, mask = null) {
    const changes = new Int32Array(eventCount);
    const categories = new Uint8Array(eventCount);
    const sources = new Uint8Array(eventCount);
    for (let i = 0; i < count; i++) {
        if (mask && mask[label[i]] === 0) continue;
        const begin = alloc[i];
        const end = free[i];
        const own = color[label[i]];
        const before = changes[begin] === 0 ? own : categories[begin];
        changes[begin] = changes[begin] === 0 || before !== own ? size[i] + 1 : 0;
        sources[begin] = before;
        categories[begin] = own;
        if (end === eventCount) continue;
        changes[end] = -1 - size[i];
        sources[end] = categories[end] = own;
    }
    return { changes, categories, sources };
}

/**
 * Returns the blocks, with ends of lifetimes as events.
 * @param {TableColumns} table
 * @param {TableColumns} labels
 * @param {Run["sizes"]} sizes
 * @param {Float64Array} segmentLow
 * @param {number} eventCount
 */
function makeBlocks(table, labels, sizes, segmentLow, eventCount) {
    const { alloc, life, segment, offset, size, label } = table;
    const count = alloc.length;
    const [segmentCount, sizeCount, labelCount] = [segmentLow.length, sizes.block.length, labels.category.length];
    const isUsed = new Uint8Array(labelCount);
    const low = new Float64Array(count);
    const free = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
        if (segment[i] >= segmentCount || size[i] >= sizeCount || label[i] >= labelCount)
            throw new Error(`the page is damaged: block ${i} has an unknown segment, size or label`);
        const end = life[i] > 0 ? alloc[i] + life[i] : eventCount;
        if (alloc[i] >= eventCount || end > eventCount)
            throw new Error(`the page is damaged: block ${i} lives outside of its run`);
        low[i] = segmentLow[segment[i]] + offset[i];
        free[i] = end;
        isUsed[label[i]] = 1;
    }
    return { count, alloc, free, low, segment, size, label, isUsed };
}

/**
 * Returns the highest moment of all: bytes, and the event; -1: nothing was ever live.
 * @param {PeakIndex} index
 */
export function peakOf(index) {
    const bytes = lastOf(index.bytes);
    let best = -1;
    bytes.forEach((value, i) => {
        if (value > 0 && (best < 0 || value > bytes[best])) best = i;
    });
    return best < 0 ? { bytes: 0, event: -1 } : { bytes: bytes[best], event: lastOf(index.moment)[best] };
}

/**
 * Builds a run's blocks and everything that the address map shows.
 * @param {Description} description chunk 0; its last category is that of blocks without a label
 * @param {RunInfo} info the run's entry in it
 * @param {TableReader} table decodes a table, if the run has it; called in the order of the file
 * @returns {Promise<{run: BuiltRun, events: BuiltEvents}>} the run so far, with knots in place of times, which the page computes
 *   from them; and the input of buildMemory
 */
export async function buildBlocks(description, info, table) {
    const eventCount = info.event_count;
    const { requested, block } = await needed(table, "sizes");
    const sizes = { requested: Float64Array.from(requested), block: Float64Array.from(block) };
    const labels = await needed(table, "labels");
    labels.category[0] = description.categories.length - 1; // instead of the first, which 0 would be
    labels.color = colorsOfLabels(COLOR_KEYS[0], description, labels);
    const segments = await needed(table, "segments");
    const { address, bytes, mapped, life } = segments;
    const count = address.length;
    const { low, addressBytes } = packSegments(segments, count);
    const parts = makeParts(await table("parts"), segments, low);
    const { reserved, peak } = reservedOverTime(parts, eventCount);
    const knots = await needed(table, "knots");
    if (eventCount > 0 && lastOf(knots.event) !== eventCount - 1)
        throw new Error("the page is damaged: its knots end before the run does");
    const blocks = makeBlocks(await needed(table, "blocks"), labels, sizes, low, eventCount);
    const events = changesOf(blocks, labels, eventCount);
    const run = {
        info,
        eventCount,
        knots,
        timed: false,
        labels,
        sizes,
        blocks,
        segments: { count, low, address, bytes, mapped, life },
        parts,
        addressBytes,
        reserved,
    };
    const copied = { requested: sizes.requested.slice(), block: sizes.block.slice() };
    return { run, events: { ...events, sizes: copied, reservedPeak: peak } };
}

/**
 * Builds the rest of a run: live bytes over time, peaks, and bars.
 * @param {Description} description
 * @param {RunInfo} info
 * @param {TableReader} table
 * @param {BuiltEvents} made
 */
export async function buildMemory(description, info, table, { sizes, reservedPeak, ...events }) {
    const memory = makeMemory(events, sizes.block, colorsOf(COLOR_KEYS[0], description).length);
    const peakIndex = makePeakIndex(memory);
    const peaks = {
        allocated: peakOf(peakIndex),
        requested: highestSum(memory, sizes.requested),
        reserved: reservedPeak,
    };
    const marks = await needed(table, "marks");
    const [kernels, program] = [await table("kernels"), await table("program_phases")];
    const lanes = makeLanes({ marks, kernels, program }, info.event_count, info.time_unit_ns);
    return { memory, peakIndex, peaks, lanes };
}

/**
 * Has the colours of a run stand for something else, and computes its live bytes anew.
 * @param {Run} run
 * @param {Description} description
 * @param {string} key   one of COLOR_KEYS
 */
export function recolorRun(run, description, key) {
    run.labels.color = colorsOfLabels(key, description, run.labels);
    const changes = changesOf(run.blocks, run.labels, run.eventCount);
    run.memory = makeMemory(changes, run.sizes.block, colorsOf(key, description).length);
    run.peakIndex = makePeakIndex(run.memory);
}

/**
 * Returns the buffers of an object, to be transferred instead of copied.
 * @param {unknown} value
 * @param {Set<ArrayBufferLike>} [found]
 */
export function buffersOf(value, found = new Set()) {
    if (ArrayBuffer.isView(value)) found.add(value.buffer);
    else if (value && typeof value === "object") for (const inner of Object.values(value)) buffersOf(inner, found);
    return found;
}
