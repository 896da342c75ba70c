/** The computations of the page, against slow and simple ones, on random runs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { firstAxisKind, makeAxis, momentAt, momentBefore } from "../../viewer/axis.js";
import { rolesInParts } from "../../viewer/verdict_card.js";
import { changeOfRemedy, firstRemedy, furtherRemedies } from "../../viewer/answers.js";
import { verdictText } from "../../viewer/answer.js";
import { besideMark, phaseBackgrounds, reservedByColumn } from "../../viewer/area.js";
import { columnsOfView } from "../../viewer/area_raster.js";
import { tensorOpLineText } from "../../viewer/block_words.js";
import { drawBars } from "../../viewer/bars.js";
import { compositionAt, findHighest, makeMemory, makePeakIndex } from "../../viewer/composition.js";
import { makeLevels, visitLive } from "../../viewer/levels.js";
import { holesAt } from "../../viewer/holes.js";
import { layOut } from "../../viewer/icicle.js";
import { inksOfLabels, wordOf } from "../../viewer/inks.js";
import { blockIn } from "../../viewer/map.js";
import { makeLanes } from "../../viewer/marks.js";
import { makeModuleTree } from "../../viewer/module_tree.js";
import { shownBlocks } from "../../viewer/moment.js";
import { shellQuote } from "../../viewer/copy_command.js";
import { addressText, addressTicks, percentText, sizeText, sizeTick, timeText } from "../../viewer/numbers.js";
import { describeMoment, placeText } from "../../viewer/where.js";
import { changesOf } from "../../viewer/store.js";
import { wholeView, withRange, zoomAt } from "../../viewer/view.js";
import { makeRandom, makeRun } from "./random_run.mjs";
import { CATEGORIES, PHASES } from "./synthetic.mjs";

const draw = makeRandom();

/** Returns the blocks that are live after a moment. */
function liveSlowly(run, moment) {
    const live = [];
    for (let i = 0; i < run.blocks.count; i++)
        if (run.blocks.alloc[i] <= moment && run.blocks.free[i] > moment) live.push(i);
    return live;
}

function categoryOf(run, block) {
    return run.labels.category[run.blocks.label[block]];
}

function totalsSlowly(run, wanted) {
    const totals = [];
    let now = 0;
    const bytes = new Float64Array(run.eventCount);
    for (let i = 0; i < run.blocks.count; i++) {
        if (!wanted[categoryOf(run, i)]) continue;
        bytes[run.blocks.alloc[i]] += run.sizes.block[run.blocks.size[i]];
        if (run.blocks.free[i] < run.eventCount) bytes[run.blocks.free[i]] -= run.sizes.block[run.blocks.size[i]];
    }
    bytes.forEach((change) => totals.push((now += change)));
    return totals;
}

/** Returns the memory of the blocks of some categories, and its index. */
function memoryOf({ blocks, labels, sizes, eventCount }, wanted) {
    const mask = Uint8Array.from(labels.category, (category) => wanted[category] ?? 0);
    const memory = makeMemory(changesOf(blocks, labels, eventCount, mask), sizes.block, wanted.length);
    return { memory, index: makePeakIndex(memory) };
}

const { run, page } = await makeRun(["small", "noise"]);

test("the composition at a moment is the sum of what is live", () => {
    for (let i = 0; i < 200; i++) {
        const moment = draw(run.eventCount + 1) - 1;
        const expected = new Float64Array(CATEGORIES.length);
        for (const block of liveSlowly(run, moment))
            expected[categoryOf(run, block)] += run.sizes.block[run.blocks.size[block]];
        assert.deepEqual(compositionAt(run.memory, moment, new Float64Array(CATEGORIES.length)), expected);
    }
});

test("as many categories as a page may have are all told apart, and blocks without a label from them", async () => {
    const many = await makeRun([], 6000, (tables, page) => {
        page.categories = Array.from({ length: 256 }, (_, i) => `category ${i}`); // the last is of no label
        tables.labels.category = tables.labels.category.map((_, label) => label % 255);
        tables.blocks.label = tables.blocks.label.map((label, i) => (i % 10 === 0 ? 0 : label));
    });
    const moment = many.run.peaks.allocated.event;
    const expected = new Float64Array(256);
    for (const block of liveSlowly(many.run, moment)) {
        const label = many.run.blocks.label[block];
        expected[label === 0 ? 255 : label % 255] += many.run.sizes.block[many.run.blocks.size[block]];
    }
    assert.ok(expected[255] > 0 && expected.filter((bytes) => bytes > 0).length > 200);
    assert.deepEqual(compositionAt(many.run.memory, moment, new Float64Array(256)), expected);
});

/** Gives blocks another label at events that do nothing else: their row ends there, and another begins. */
function relabelSome({ blocks, labels, events }) {
    const isTaken = new Set(blocks.alloc);
    blocks.alloc.forEach((alloc, i) => blocks.life[i] > 0 && isTaken.add(alloc + blocks.life[i]));
    const rows = blocks.alloc.map((_, i) =>
        Object.fromEntries(Object.keys(blocks).map((name) => [name, blocks[name][i]])),
    );
    for (let event = 0; event < events.time.length; event++) {
        if (isTaken.has(event)) continue;
        const live = rows.filter(({ alloc, life }) => alloc < event && (life === 0 || alloc + life > event));
        if (live.length === 0) continue;
        const before = live[draw(live.length)];
        const label = 1 + draw(labels.category.length - 1);
        rows.push({ ...before, alloc: event, label, life: before.life > 0 ? before.alloc + before.life - event : 0 });
        before.life = event - before.alloc;
    }
    rows.sort((a, b) => a.alloc - b.alloc);
    for (const name of Object.keys(blocks)) blocks[name] = rows.map((row) => row[name]);
    return rows.length;
}

test("a block whose label changes is counted once, in the category that it has at the moment", async () => {
    let rows = 0;
    const relabelled = (await makeRun(["small"], 1000, (tables) => (rows = relabelSome(tables)))).run;
    assert.ok(rows > 1100);
    assert.deepEqual(relabelled.peaks.allocated, relabelled.info.peaks.allocated);
    assert.ok(relabelled.peaks.requested.bytes <= relabelled.peaks.allocated.bytes);
    for (let moment = 0; moment < relabelled.eventCount; moment += 1 + draw(20)) {
        const expected = new Float64Array(CATEGORIES.length);
        for (const block of liveSlowly(relabelled, moment))
            expected[categoryOf(relabelled, block)] += relabelled.sizes.block[relabelled.blocks.size[block]];
        assert.deepEqual(compositionAt(relabelled.memory, moment, new Float64Array(CATEGORIES.length)), expected);
    }
    for (let only = 0; only < CATEGORIES.length; only++) {
        const wanted = new Uint8Array(CATEGORIES.length);
        wanted[only] = 1;
        const totals = totalsSlowly(relabelled, wanted);
        const { memory, index } = memoryOf(relabelled, wanted);
        assert.equal(findHighest(memory, index, 0, relabelled.eventCount - 1).bytes, Math.max(...totals));
    }
});

test("the highest moment of a range is the earliest of the highest, for all categories and for one", () => {
    for (const only of [-1, 0, 11]) {
        const wanted = new Uint8Array(CATEGORIES.length).fill(only < 0 ? 1 : 0);
        if (only >= 0) wanted[only] = 1;
        const totals = totalsSlowly(run, wanted);
        const { memory, index } = memoryOf(run, wanted);
        for (let i = 0; i < 500; i++) {
            const first = draw(run.eventCount + 1) - 1;
            const last = Math.min(run.eventCount - 1, first + draw(i % 2 ? 100 : run.eventCount));
            let best = { bytes: -1, moment: -1 };
            for (let m = first; m <= last; m++)
                if ((totals[m] ?? 0) > best.bytes) best = { bytes: totals[m] ?? 0, moment: m };
            const found = findHighest(memory, index, first, last);
            assert.deepEqual({ ...found }, best, `${first}..${last}`);
        }
    }
});

test("the peaks are those of the recording", () => {
    assert.deepEqual(run.peaks.allocated, run.info.peaks.allocated);
    assert.ok(run.peaks.reserved.bytes >= run.peaks.allocated.bytes);
    assert.ok(run.peaks.requested.bytes <= run.peaks.allocated.bytes);
});

/** Maps every segment in parts, each at an event of its own; some are unmapped. */
function breakSegments({ segments, events, parts }) {
    for (let i = 0; i < segments.bytes.length; i++)
        for (let offset = 0; offset < segments.bytes[i]; offset += segments.bytes[i] / 8) {
            const mapped = draw(events.time.length);
            const row = { segment: i, offset, bytes: segments.bytes[i] / (8 << draw(2)), mapped };
            row.life = draw(2) ? draw(events.time.length - mapped) : 0;
            for (const [column, values] of Object.entries(parts)) values.push(row[column]);
        }
}

test("reserved is what parts of segments have memory", async () => {
    const parts = { segment: [], offset: [], bytes: [], mapped: [], life: [] };
    const { run: broken } = await makeRun(["small"], 500, (tables) => breakSegments(Object.assign(tables, { parts })));
    let change = 0;
    let highest = 0;
    for (let event = 0; event < broken.eventCount; event++) {
        const mapped = (_, i) =>
            parts.mapped[i] <= event && !(parts.life[i] && parts.mapped[i] + parts.life[i] <= event);
        const bytes = parts.bytes.filter(mapped).reduce((sum, each) => sum + each, 0);
        while (change < broken.reserved.event.length && broken.reserved.event[change] <= event) change++;
        assert.equal(change > 0 ? broken.reserved.bytes[change - 1] : 0, bytes);
        highest = Math.max(highest, bytes);
    }
    assert.equal(broken.peaks.reserved.bytes, highest);
    for (let i = 0; i < broken.parts.count; i++)
        assert.equal(broken.parts.low[i], broken.segments.low[parts.segment[i]] + parts.offset[i]);
});

test("between knots times rise evenly, and the run's end is its own", async () => {
    const times = [];
    const { run: coarse } = await makeRun(["noise"], 1000, (tables) => {
        times.push(...tables.events.time);
        const event = times.map((_, i) => i).filter((i) => i % 97 === 0 || i === times.length - 1);
        tables.knots = { event, time: event.map((i) => times[i]) };
    });
    assert.equal(coarse.timed, false);
    assert.equal(coarse.time.length, times.length + 1);
    assert.deepEqual([...coarse.time.slice(-2)], [times.at(-1), times.at(-1)]);
    for (let i = 1; i < times.length - 1; i++) {
        const from = i - (i % 97);
        const to = Math.min(from + 97, times.length - 1);
        const expected = times[from] + ((times[to] - times[from]) * (i - from)) / (to - from);
        assert.ok(Math.abs(coarse.time[i] - expected) <= 1e-3, `event ${i}: ${coarse.time[i]} for ${expected}`);
    }
});

test("columns of a view leave no event out, so that the peak is in one of them at every zoom", () => {
    for (const kind of ["time", "event", "phase"]) {
        const axis = makeAxis(kind, [run], PHASES);
        for (let i = 0; i < 30; i++) {
            let view = wholeView(axis, run.addressBytes);
            const x = axis.xs[0][run.peaks.allocated.event];
            if (i > 0) view = zoomAt(view, axis, x, 1 / (1 + draw(1000)));
            const columns = columnsOfView(run, run, 0, axis, view, 50 + draw(900));
            assert.equal(Math.max(...columns.bytes), run.peaks.allocated.bytes, `${kind} ${view.x0} ${view.x1}`);
        }
    }
});

test("the line of what is reserved keeps what falls within a column, and ends with its run", () => {
    const spike = {
        eventCount: 10,
        reserved: { event: Float64Array.of(0, 4, 5), bytes: Float64Array.of(7, 9, 2) },
    };
    const axis = { length: 20, xs: [Float64Array.from({ length: 11 }, (_, event) => event)] };
    const line = (view, width) => [...reservedByColumn(spike, 0, axis, view, width)];
    assert.deepEqual(line({ x0: 0, x1: 20 }, 4), [9, 9]);
    assert.deepEqual(line({ x0: 0, x1: 20 }, 20), [7, 7, 7, 7, 9, 9, 2, 2, 2, 2]);
    assert.deepEqual(line({ x0: 6, x1: 8 }, 3), [2, 2, 2]);
    assert.deepEqual(line({ x0: 12, x1: 20 }, 3), []);
});

test("the peak's text stands beside its mark and inside of the plot", () => {
    for (let x = 0; x <= 900; x += 10) {
        const left = besideMark(x, 90, 900);
        assert.ok(left >= 6 && left + 90 <= 900, `${x}`);
        assert.ok(left >= x + 5 || left + 90 <= x - 5, `${x}`);
    }
});

test("what is live is found on every axis", () => {
    for (const kind of ["time", "event", "phase"]) {
        const axis = makeAxis(kind, [run], PHASES);
        const levels = makeLevels(run, axis, 0);
        for (let i = 0; i < 60; i++) {
            const moment = draw(run.eventCount + 1) - 1;
            const found = [];
            visitLive(levels, run, axis, 0, moment, (block) => found.push(block));
            assert.deepEqual(
                found.sort((a, b) => a - b),
                liveSlowly(run, moment),
                `${kind} ${moment}`,
            );
        }
    }
});

test("a point in a block finds it, on every axis", () => {
    const inks = inksOfLabels(run, null);
    for (const kind of ["time", "event", "phase"]) {
        const axis = makeAxis(kind, [run], PHASES);
        const levels = makeLevels(run, axis, 0);
        const scene = { mapRun: 0, runs: [run], axis, levels: () => levels };
        for (let i = 0; i < 300; i++) {
            const block = draw(run.blocks.count);
            const [left, right] = [axis.xs[0][run.blocks.alloc[block]], axis.xs[0][run.blocks.free[block]]];
            if (right <= left) continue;
            const x = left + (right - left) * 0.5;
            const address = run.blocks.low[block] + run.sizes.block[run.blocks.size[block]] / 2;
            const point = { x0: x, x1: x + 1e-9, low: address, high: address + 1 };
            const ink = inks[run.blocks.label[block]];
            assert.equal(blockIn(scene, inks, ink, point), block);
            assert.equal(blockIn(scene, inks, ink + 1, point), -1);
        }
    }
});

test("holes and blocks at a moment fill what is reserved, and no hole touches another one of its segment", () => {
    const axis = makeAxis("event", [run], PHASES);
    const levels = makeLevels(run, axis, 0);
    const scene = { runs: [run], axis, levels: () => levels };
    const starts = new Set(run.segments.low);
    for (let i = 0; i < 100; i++) {
        const { blocks, holes, reserved } = holesAt(scene, 0, draw(run.eventCount));
        const bytesOf = (block) => run.sizes.block[run.blocks.size[block]];
        const pieces = [
            ...blocks.map((block) => ({ low: run.blocks.low[block], bytes: bytesOf(block), isHole: false })),
            ...holes.map((hole) => ({ ...hole, isHole: true })),
        ].sort((a, b) => a.low - b.low);
        assert.equal(
            pieces.reduce((sum, { bytes }) => sum + bytes, 0),
            reserved,
        );
        pieces.slice(1).forEach((piece, k) => {
            const before = pieces[k];
            assert.ok(before.low + before.bytes <= piece.low);
            const touches = before.low + before.bytes === piece.low && !starts.has(piece.low);
            assert.ok(!(touches && before.isHole && piece.isHole), `two holes at ${piece.low}`);
        });
    }
});

test("modules sum up what is live, level by level, with layers folded or not", () => {
    const axis = makeAxis("event", [run], PHASES);
    const levels = makeLevels(run, axis, 0);
    const scene = { runs: [run], axis, levels: () => levels, mask: () => null };
    for (let i = 0; i < 20; i++) {
        const live = shownBlocks(scene, 0, draw(run.eventCount));
        const whole = live.reduce((sum, block) => sum + run.sizes.block[run.blocks.size[block]], 0);
        for (const eachLayer of [false, true]) {
            const root = makeModuleTree(page, [run], [live], eachLayer);
            const check = (node) => {
                if (node.isOp) return assert.equal(node.children.length, 0);
                assert.ok(eachLayer || !/\d/.test(node.path.split(".")[2] ?? ""), node.path);
                assert.equal(
                    node.children.reduce((sum, { bytes }) => sum + bytes[0], 0),
                    node.bytes[0],
                    node.path,
                );
                node.children.forEach(check);
            };
            check(root);
            assert.equal(root.bytes[0], whole);
            for (const { left, part } of layOut(root)) assert.ok(left >= 0 && left + part <= 1 + 1e-9);
        }
    }
});

test("a block without an op has its role as its name in the tree of modules", async () => {
    const nameless = await makeRun(["small"], 1000, ({ labels }) => labels.op.fill(0));
    const { event } = nameless.run.peaks.allocated;
    const names = layOut(makeModuleTree(nameless.page, [nameless.run], [liveSlowly(nameless.run, event)], true))
        .filter(({ node }) => node.isOp)
        .map(({ node }) => node.name);
    assert.ok(names.includes("parameter") && names.includes("optimizer state"), names.join());
    assert.ok(!names.includes("block") && !names.includes(""));
});

test("ticks of addresses differ, however small the view is", () => {
    for (let i = 0; i < 500; i++) {
        const step = 2 ** draw(36);
        const low = draw(2 ** 38);
        const { base, text } = addressTicks(low, step);
        assert.ok(base <= low && base % 1024 === 0);
        const first = Math.ceil(low / step) * step;
        const ticks = [0, 1, 2, 3].map((k) => text(first + k * step));
        assert.equal(new Set(ticks).size, 4, `${ticks} from ${base}, step ${step}`);
    }
    assert.equal(addressText(57 * 2 ** 30 + 250 * 2 ** 20 + 512), "57 GiB 250 MiB 512 B");
    assert.equal(addressText(0), "0 B");
});

test("no two blocks hold an address at a time, and gaps between segments are closed", () => {
    let mapped = 0;
    for (let i = 0; i < run.segments.count; i++) mapped += run.segments.bytes[i];
    assert.equal(run.addressBytes, mapped);
    const live = liveSlowly(run, run.peaks.allocated.event).sort((a, b) => run.blocks.low[a] - run.blocks.low[b]);
    live.slice(1).forEach((block, i) =>
        assert.ok(run.blocks.low[live[i]] + run.sizes.block[run.blocks.size[live[i]]] <= run.blocks.low[block]),
    );
});

test("axes never go backwards and moments are where they say", () => {
    for (const kind of ["time", "event", "phase"]) {
        const axis = makeAxis(kind, [run], PHASES);
        const xs = axis.xs[0];
        for (let i = 1; i < xs.length; i++) assert.ok(xs[i] >= xs[i - 1]);
        assert.ok(xs[0] >= 0 && xs.at(-1) <= axis.length + 1e-6);
        for (let i = 0; i < 100; i++) {
            const x = (draw(1e6) / 1e6) * axis.length;
            const at = momentAt(axis, 0, x);
            assert.ok((at < 0 || xs[at] <= x) && (at + 1 >= run.eventCount || xs[at + 1] > x));
            const before = momentBefore(axis, 0, x);
            assert.ok((before < 0 || xs[before] < x) && (before + 1 >= run.eventCount || xs[before + 1] >= x));
            assert.equal(momentBefore(axis, 0, x, draw(before + 2) - 1), before);
        }
    }
});

test("phases of two runs are laid over each other", async () => {
    const made = [await makeRun(["small"], 2000), await makeRun(["small", "noise"], 2600)];
    const runs = made.map((each) => each.run);
    const axis = makeAxis("phase", runs, PHASES);
    const xOfPhase = (number, i) => axis.xs[number][runs[number].lanes.phases.begin[i]];
    const count = Math.min(...runs.map((each) => each.lanes.phases.begin.length));
    assert.ok(count > 4);
    for (let i = 0; i < count; i++) assert.equal(xOfPhase(0, i), xOfPhase(1, i));
});

/** Returns the input of a phase axis: steps [begin, end, number] and phases [begin, end, phase]. */
function runOf(eventCount, steps, phases) {
    const lane = (intervals) => ({
        begin: intervals.map(([begin]) => begin),
        end: intervals.map(([, end]) => end),
        text: intervals.map(([, , text]) => text),
    });
    return {
        eventCount,
        lanes: { program: lane([]), steps: lane(steps), phases: lane(phases), spans: [], kernels: [] },
    };
}

test("steps without phases are laid over each other, too", () => {
    const first = runOf(50, [[10, 20, 1], [20, 30, 2]], []); // prettier-ignore
    const second = runOf(90, [[5, 45, 1], [50, 60, 2], [60, 70, 3]], []); // prettier-ignore
    const axis = makeAxis("phase", [first, second], PHASES);
    assert.deepEqual(
        axis.pieces.map(({ text }) => text),
        ["", "step 1", "step 2", "step 3"],
    );
    assert.equal(axis.xs[0][10], axis.xs[1][5]);
    assert.equal(axis.xs[0][20], axis.xs[1][50]);
    assert.equal(axis.xs[0][0], axis.xs[1][0]);
    assert.ok(axis.xs[0][30] < axis.pieces[3].x && axis.xs[1][60] === axis.pieces[3].x);
});

test("the names of phases never run into each other", () => {
    const written = [];
    const context = new Proxy(
        {
            measureText: (text) => ({ width: text.length * 6 }),
            fillText: (text, left) => written.push([left, left + text.length * 6]),
        },
        { get: (target, name) => target[name] ?? (() => {}), set: () => true },
    );
    const pieces = Array.from({ length: 400 }, (_, i) => ({
        x: i * i,
        end: (i + 1) ** 2,
        text: `step ${i}, backward`,
        name: "backward",
    }));
    const axis = { kind: "phase", pieces };
    for (const [x0, x1] of [
        [0, 160000],
        [0, 900],
        [400, 500],
    ]) {
        written.length = 0;
        drawBars({ begin() {}, width: 900, context }, { axis, view: { x0, x1 }, theme: {}, barRows: [] });
        assert.ok(written.length > 2);
        for (let i = 1; i < written.length; i++) assert.ok(written[i][0] > written[i - 1][1] + 4, `${x0} ${i}`);
    }
});

test("twenty thousand steps are laid over each other at once", () => {
    const many = (count) =>
        runOf(
            count * 10,
            Array.from({ length: count }, (_, i) => [i * 10, i * 10 + 10, i]),
            Array.from({ length: count * 2 }, (_, i) => [i * 5, i * 5 + 5, 1 + (i % 2)]),
        );
    const runs = [many(20000), many(18000)];
    const began = performance.now();
    const axis = makeAxis("phase", runs, PHASES);
    assert.equal(axis.pieces.length, 40000);
    assert.ok(performance.now() - began < 10000, "pieces that were compared with each other took minutes");
});

/** Returns the lanes of marks [event, kind, value]: 0 step_begin, 1 step_end, 2 phase. */
function lanesOf(rows, eventCount, program) {
    const column = (at) => rows.map((row) => row[at] ?? 0);
    const marks = { event: column(0), kind: column(1), value: column(2), span: column(3), label: column(4) };
    return makeLanes({ marks, program }, eventCount, 1);
}

const intervalsOf = ({ begin, end, text }) => Array.from(begin, (event, i) => [event, end[i], text[i]]);

// The marks of two steps of a dry run: each step's forward phase is entered just before the step begins.
const DRY = [[1, 2, 0], [9, 2, 1], [10, 0, 0], [20, 2, 2], [21, 2, 3], [29, 2, 4], [39, 2, 1], [40, 1, 0], [45, 0, 1], [50, 2, 3], [58, 2, 1], [59, 1, 1]]; // prettier-ignore

test("a phase that is entered just before its step is part of the step", () => {
    const { steps, phases } = lanesOf(DRY, 60);
    assert.deepEqual(intervalsOf(steps), [[10, 41, 0], [45, 60, 1]]); // prettier-ignore
    assert.deepEqual(intervalsOf(phases), [[1, 9, 0], [9, 20, 1], [20, 21, 2], [21, 29, 3], [29, 39, 4], [39, 50, 1], [50, 58, 3], [58, 60, 1]]); // prettier-ignore
    const run = { eventCount: 60, lanes: { steps, phases } };
    assert.deepEqual(
        makeAxis("phase", [run], PHASES).pieces.map(({ text }) => text),
        ["", "init", "step 0, forward", "step 0, loss", "step 0, backward", "step 0, optimizer", "step 1, forward", "step 1, backward", "step 1, forward"], // prettier-ignore
    );
});

test("a phase ends with its step, and the one before all steps where the first begins", () => {
    const rows = [[0, 2, 0], [5, 0, 0], [6, 2, 1], [9, 2, 4], [12, 1, 0], [20, 0, 1], [25, 1, 1]]; // prettier-ignore
    assert.deepEqual(intervalsOf(lanesOf(rows, 30).phases), [[0, 5, 0], [6, 9, 1], [9, 13, 4]]); // prettier-ignore
});

test("program phases last until the next one, and the last to the end of the run", () => {
    assert.deepEqual(intervalsOf(lanesOf(DRY, 60).program), []);
    const program = { event: [2, 9, 44], name: [5, 6, 7] };
    assert.deepEqual(intervalsOf(lanesOf(DRY, 60, program).program), [[2, 9, 5], [9, 44, 6], [44, 60, 7]]); // prettier-ignore
});

test("the background of an area shows the phases, faintly", () => {
    const theme = { backgroundRgb: [255, 255, 255] };
    const run = { eventCount: 60, lanes: lanesOf(DRY, 60) };
    const scene = { theme, axis: makeAxis("event", [run]), view: { x0: 0, x1: 60 }, runs: [run] };
    const columns = [...phaseBackgrounds(scene, 0, 60)];
    assert.equal(columns[0], wordOf(theme.backgroundRgb));
    assert.equal(new Set(columns.slice(9, 20)).size, 1);
    assert.equal(new Set(columns).size, 6); // none and five phases
    for (const word of columns)
        for (const shift of [0, 8, 16]) assert.ok(((word >>> shift) & 255) >= 225, "no tint is dark");
});

test("the axis of a dry run is that of events, since its times are the host's", () => {
    const run = (settings, time) => ({ info: { settings }, time });
    assert.equal(firstAxisKind([run([["recorded", "dry"]], [0, 5])]), "event");
    assert.equal(firstAxisKind([run([["recorded", "allocator"]], [0, 5])]), "time");
    assert.equal(firstAxisKind([run([], [5, 5])]), "event");
    assert.equal(firstAxisKind([run([], [0, 5]), run([], [0, 5])]), "phase");
});

test("a moment is told by its step, or by the one that was before", () => {
    const told = (moment) => placeText(describeMoment({ phases: PHASES, texts: [""] }, cut, moment));
    const cut = { ...runOf(50, [[10, 20, 1], [20, 30, 2]], [[0, 5, 0], [10, 20, 1]]), info: { first_event: 1, settings: [] } }; // prettier-ignore
    assert.equal(told(2), "before the first step, init");
    assert.equal(told(15), "step 1, forward");
    assert.equal(told(29), "step 2");
    assert.equal(told(30), "after step 2");
    const none = { ...runOf(50, [], []), info: { first_event: 1, settings: [] } };
    assert.equal(placeText(describeMoment({ phases: PHASES, texts: [""] }, none, 4)), "");
});

test("spans are nested, and one that the run cut off ends with it", async () => {
    const { run: cut } = await makeRun(["small", "oom"]);
    assert.equal(cut.lanes.ooms.length, 1);
    assert.equal(cut.lanes.steps.end.at(-1), cut.eventCount);
    const [outer, inner] = run.lanes.spans;
    for (let i = 0; i < inner.begin.length; i++)
        assert.ok(outer.begin.some((begin, o) => begin <= inner.begin[i] && inner.end[i] <= outer.end[o]));
});

test("a view stays inside of its axis however it is moved", () => {
    const axis = makeAxis("time", [run], PHASES);
    let view = wholeView(axis, run.addressBytes);
    for (let i = 0; i < 500; i++) {
        view = draw(2)
            ? zoomAt(view, axis, (draw(1000) / 1000) * axis.length, draw(2) ? 0.3 : 3)
            : withRange(view, axis, draw(axis.length * 2) - axis.length / 2, draw(axis.length * 2));
        assert.ok(
            view.x0 >= 0 && view.x1 <= axis.length * (1 + 1e-12) && view.x1 - view.x0 >= axis.shortest * (1 - 1e-9),
            JSON.stringify(view),
        );
    }
});

test("a block is told by its tensor, op and line, and what is not known as unknown", () => {
    const texts = ["", "none", "fp32", "8192,50257", "aten::_log_softmax", "optimizer state", "exp_avg", "wte.weight.exp_avg", "/x/gpt2.py", "f"]; // prettier-ignore
    const column = (...words) => words.map((word) => texts.indexOf(word));
    const labels = {
        role: column("", "", "optimizer state", "optimizer state", ""),
        op: column("", "aten::_log_softmax", "exp_avg", "", ""),
        span: column("", "", "wte.weight.exp_avg", "", ""),
        dtype: column("none", "fp32", "fp32", "none", "fp32"),
        shape: column("", "8192,50257", "", "", ""),
    };
    const blocks = { label: [0, 1, 2, 3, 4], size: [0, 0, 0, 0, 0] };
    const stacks = { parent: [0, 0], function: column("", "f"), file: column("", "/x/gpt2.py"), line: [0, 7], of: [0, 1, 0, 0, 1] }; // prettier-ignore
    const runs = [{ labels, blocks, sizes: { block: [1646821376] } }];
    const scene = { description: { texts }, mapRun: 0, runs, stacks: [stacks] };
    const told = blocks.label.map((_, block) => tensorOpLineText(scene, block));
    assert.deepEqual(told, [
        "1.53 GiB · unknown",
        "1.53 GiB fp32 [8192, 50257] · log_softmax · gpt2.py:7",
        "1.53 GiB fp32 [] · exp_avg of wte.weight",
        "1.53 GiB · state of an unknown parameter",
        "1.53 GiB fp32 [] · unknown · gpt2.py:7",
    ]);
});

test("numbers are told as the command line tells them", () => {
    assert.equal(sizeText(68031946752), "63.36 GiB");
    assert.equal(sizeText(-512), "−512 B");
    assert.equal(sizeTick(2 ** 34), "16 GiB");
    assert.equal(sizeTick(0), "0 B");
    assert.equal(sizeTick(2 ** 30 * 2.5), "2.5 GiB");
    assert.equal(timeText(64204123), "64.204 ms");
    assert.equal(percentText(417, 1000), "41.7 %");
    assert.equal(percentText(5, 10000), "0.1 %");
    assert.equal(percentText(4, 10000), "<0.1 %");
    assert.equal(percentText(0, 10000), "0.0 %");
    assert.equal(shellQuote("it's"), "'it'\\''s'");
    assert.equal(shellQuote("memtrace.db"), "memtrace.db");
});

test("the title of a page is its verdict", () => {
    const GIB = 2 ** 30;
    const fits = { fits: true, needed_bytes: 15 * GIB, card_bytes: 24 * GIB, short_bytes: 0, fills_at: -1 };
    const textOf = (verdict, state = "done", refusal = null) =>
        verdictText({
            runs: [{ info: { state }, peaks: { allocated: { bytes: GIB } } }],
            refusals: [refusal],
            answers: verdict && { verdict },
        });
    assert.equal(textOf(fits), "Fits: 15.00 of 24.00 GiB");
    assert.equal(textOf({ ...fits, fills_at: 40 }), "Fits until iteration 40, by estimate: 15.00 of 24.00 GiB");
    assert.equal(textOf(fits, "failed"), "Peak: 15.00 of 24.00 GiB");
    assert.equal(
        textOf({ ...fits, fits: false, needed_bytes: 25 * GIB, short_bytes: GIB }),
        "Does not fit: 1.00 GiB short, 25.00 of 24.00 GiB",
    );
    assert.equal(textOf({ ...fits, fits: false, card_bytes: 0 }), "Peak: 1.00 GiB");
    assert.equal(textOf(null), "Peak: 1.00 GiB");
    assert.equal(textOf({ ...fits, short_bytes: 2 * GIB }, "oom", { bytes: GIB }), "Out of memory: 2.00 GiB short");
    assert.equal(textOf(null, "oom", { bytes: GIB }), "Out of memory: 1.00 GiB refused");
});

test("the first remedy says what to write, and further ones are those that no change lists", () => {
    const change = (name, reserved) => ({
        change: name,
        command: "",
        hint: name,
        fits: true,
        reserved_bytes: reserved,
    });
    const remedy = (what, how, name = "") => ({ what, how, change: name });
    const whatIf = (...remedies) => ({
        remedies,
        as_it_was: { reserved_bytes: 8 },
        changes: [change("checkpoint", 4), change("offload", 2), change("dearer", 9)].map((each) => ({
            ...each,
            allocated_bytes: 0,
        })),
    });
    const holder = remedy("cache keeps 1 GiB", "");
    const loop = remedy("losses keeps 2 GiB", "keep loss.item()");
    const listed = remedy("8 B fall to 4 B", "checkpoint(…)", "checkpoint");
    assert.equal(firstRemedy(whatIf(holder, loop, listed)), loop);
    assert.deepEqual(furtherRemedies(whatIf(holder, loop, listed)), [holder]);
    assert.equal(firstRemedy(whatIf(holder, listed, loop)), listed);
    assert.deepEqual(furtherRemedies(whatIf(holder, listed, loop)), [holder, loop]);
    assert.equal(changeOfRemedy(listed, whatIf()).hint, "checkpoint");
    assert.equal(firstRemedy(whatIf(holder, remedy("", "", "dearer"))), null, "a change that saves nothing is none");
});

test("the card has a part for each role with much memory, and one for all others", () => {
    const roles = ["parameter", "optimizer state", "gradient", "activation", "temporary"];
    const byRole = new Map([
        ...roles.map((role, i) => [role, i]),
        ["buffer", 1],
        ["weight cast", 60],
        ["input", 30],
        ["other", 9],
    ]);
    const parts = rolesInParts(byRole);
    assert.deepEqual(parts.map(({ name, bytes }) => `${name} ${bytes}`).slice(roles.length), [
        "weight cast 60",
        "input 30",
        "other 10",
    ]);
    assert.equal(
        parts.reduce((sum, { bytes }) => sum + bytes, 0),
        [...byRole.values()].reduce((a, b) => a + b),
    );
});
