/**
 * The state of the page, and the values derived from it. It is the only place with state: other parts read it, and
 * change it through `set`. Then everything is drawn again in the next frame. Costly values are cached until their
 * inputs change.
 */
import { alikeLabels } from "./alike.js";
import { BEFORE_ALL, firstAxisKind, makeAxis, momentAt } from "./axis.js";
import { makeBarRows } from "./bars.js";
import { COLOR_KEYS, colorsOf, stackOrder } from "./colors.js";
import { makeMemory, makePeakIndex } from "./composition.js";
import { colorMask, findLabels, foundMask, hiddenMask, joinMasks, moduleMask } from "./filter.js";
import { makeLevels } from "./levels.js";
import { inksOfLabels } from "./inks.js";
import { reservedAt } from "./moment.js";
import { changesOf, peakOf, recolorRun } from "./store.js";
import { revealX, wholeView } from "./view.js";

/** Returns a cache of one value, which is computed again when one of its inputs changes. */
function remember() {
    /** @type {unknown[]} */
    let madeFrom = [];
    /** @type {unknown} */
    let value;
    /**
     * @template T
     * @param {unknown[]} from
     * @param {() => T} make
     * @returns {T}
     */
    return (from, make) => {
        if (value === undefined || from.some((each, i) => each !== madeFrom[i])) {
            madeFrom = from;
            value = make();
        }
        return /** @type {T} */ (value);
    };
}

/** The moments that are kept for x (momentAtX). */
const MOST_MOMENTS = 8192;

export class Scene {
    /**
     * @param {Description} description
     * @param {Run[]} runs   with blocks; the rest may follow
     * @param {Theme} theme
     */
    constructor(description, runs, theme) {
        this.description = description;
        this.runs = runs;
        this.theme = theme;
        this.onChange = () => {}; // draws everything in the next frame
        this.onHover = () => {}; // draws what follows the pointer
        this.colorKey = COLOR_KEYS[0]; // what colours stand for
        this.colors = colorsOf(this.colorKey, description);
        this.stack = stackOrder(this.colors);
        /** @type {(?TableColumns)[]} */
        this.uses = runs.map(() => null);
        /** @type {(?Stacks)[]} */
        this.stacks = runs.map(() => null);
        this.rank = ""; // of the job's ranks, the one that the hash names; "": none, so that which the page opens with
        this.mapRun = 0;
        this.isolated = -1; // colour that is isolated; -1: none, all are shown
        this.groupKey = "category"; // one of GROUP_KEYS (filter.js)
        this.unfolded = ""; // key of the group of live blocks that lists each of them; "": none
        this.query = "";
        this.within = ""; // path of the module whose blocks are shown alone; "": of all
        this.eachLayer = false; // true if alike layers are modules of their own
        /** @type {string[]} */
        this.hidden = []; // words of labels whose blocks are not shown: ["role:parameter"]
        /** @type {?Answers} */
        this.answers = null; // of other commands (answers.js), which follow after the first picture
        this.whatIf = ""; // the change that is drawn; "": none
        this.card = ""; // name of the card whose capacity is drawn; "": that of the run
        /** @type {Mask} */
        this.twins = null; // by label, 1 for twins of the selected block; null: not shown
        this.selected = -1; // block of run mapRun; -1: none
        /** @type {?Bar} */
        this.bar = null; // the selected one of run mapRun; null: none
        this.allDepths = false; // true if the bars have a row for each depth of spans
        /** @type {?{x0: number, x1: number}} */
        this.measured = null;
        this.timed = false; // true if all runs have their exact times, which follow after the first picture
        this.cache = {
            levels: runs.map(() => remember()),
            alike: runs.map(() => remember()),
            found: runs.map(() => remember()),
            chosen: runs.map(() => remember()),
            mask: runs.map(() => remember()),
            shown: runs.map(() => remember()),
            inks: remember(),
            grid: remember(),
            emphasis: remember(),
            barRows: remember(),
            moments: remember(),
        };
        this.axis = makeAxis(firstAxisKind(runs), runs, description.phases);
        this.view = wholeView(this.axis, runs[0].addressBytes);
        /** @type {number[]} */
        this.moments = runs.map(() => BEFORE_ALL); // pinned moments, one a run
        /** @type {?Hover} */
        this.hover = null; // what is under the pointer; null: nothing
    }

    /**
     * Changes state, and draws it.
     * @param {Partial<Scene>} changes
     */
    set(changes) {
        Object.assign(this, changes);
        this.onChange();
    }

    /** @param {AxisKind} kind */
    setAxis(kind) {
        if (kind === this.axis.kind) return;
        // Keeps the same events at both ends of the view.
        const wide = this.isWide;
        const ends = [this.view.x0, this.view.x1].map((x) => Math.max(0, momentAt(this.axis, this.mapRun, x)));
        const axis = makeAxis(kind, this.runs, this.description.phases);
        const view = { ...this.view, x0: 0, x1: axis.length };
        if (!wide && ends[1] > ends[0]) [view.x0, view.x1] = ends.map((event) => axis.xs[this.mapRun][event]);
        if (view.x1 - view.x0 < axis.shortest) Object.assign(view, { x0: 0, x1: axis.length });
        this.set({ axis, view, measured: null });
    }

    /**
     * Has colours stand for something else.
     * @param {string} colorKey   one of COLOR_KEYS
     */
    setColorKey(colorKey) {
        if (colorKey === this.colorKey) return;
        for (const run of this.runs) recolorRun(run, this.description, colorKey);
        const colors = colorsOf(colorKey, this.description);
        this.set({ colorKey, colors, stack: stackOrder(colors), isolated: -1 });
    }

    /** @param {number} mapRun */
    setMapRun(mapRun) {
        const whole = Math.max(1, this.runs[mapRun].addressBytes);
        this.set({
            mapRun,
            selected: -1,
            bar: null,
            twins: null,
            view: { ...this.view, low: 0, high: whole },
        });
    }

    /**
     * Sets the exact times of a run. The first picture uses approximate ones. Draws nothing.
     * @param {number} number
     * @param {Float64Array} time
     */
    setTime(number, time) {
        Object.assign(this.runs[number], { time, timed: true });
        this.timed = this.runs.every((run) => run.timed);
        if (this.axis.kind === "time") this.axis = makeAxis("time", this.runs, this.description.phases);
    }

    /** True if the view covers the whole axis. */
    get isWide() {
        return this.view.x0 === 0 && this.view.x1 === this.axis.length;
    }

    /**
     * Sets the uses of blocks, which follow after the first picture. Only a selected block shows them.
     * @param {number} number
     * @param {?TableColumns} uses
     */
    setUses(number, uses) {
        this.uses[number] = uses;
        if (this.selected >= 0) this.onChange();
    }

    /**
     * Sets the call stacks and which block has which, as setUses does.
     * @param {number} number
     * @param {?Stacks} stacks
     */
    setStacks(number, stacks) {
        this.stacks[number] = stacks;
        if (this.selected >= 0) this.onChange();
    }

    /**
     * Sets the answers.
     * @param {?Answers} answers
     */
    setAnswers(answers) {
        this.set({ answers });
    }

    /**
     * Sets what is under the pointer; null: nothing. Draws no chart.
     * @param {?Hover} hover
     */
    setHover(hover) {
        if (!hover && !this.hover) return;
        this.hover = hover;
        this.onHover();
    }

    /**
     * Selects a block and brings it into view.
     * @param {number} block
     */
    reveal(block) {
        const { blocks } = this.runs[this.mapRun];
        const xs = this.axis.xs[this.mapRun];
        const x = (xs[blocks.alloc[block]] + xs[blocks.free[block]]) / 2;
        const low = blocks.low[block];
        const view =
            low >= this.view.low && low < this.view.high
                ? this.view
                : { ...this.view, low: 0, high: Math.max(1, this.runs[this.mapRun].addressBytes) };
        this.set({ selected: block, twins: null, view: revealX(view, this.axis, x) });
    }

    /** @param {number} x */
    showX(x) {
        this.set({ view: revealX(this.view, this.axis, x) });
    }

    /** The moments under the pointer, while it is over an area, or else the pinned ones; one a run. */
    get cursorMoments() {
        return this.hover?.moments ?? this.moments;
    }

    /** The change that is drawn (answers.js); null: none. */
    get change() {
        return this.answers?.what_if?.changes.find(({ change }) => change === this.whatIf) ?? null;
    }

    /** The bytes that the chosen card or else the run's has for an allocator; 0: not known. */
    get capacity() {
        const card = this.answers?.what_if?.cards.find(({ name }) => name === this.card);
        return card?.usable_bytes ?? this.runs[0].info.capacity_bytes;
    }

    /** Of each run that ended out of memory, the request that was refused last; null of others. */
    get refusals() {
        return this.runs.map(({ info, lanes }) => (info.state === "oom" ? (lanes.ooms.at(-1) ?? null) : null));
    }

    /** The moments that a page opens with: the refusal that ended a run, or else its peak. */
    get openingMoments() {
        return this.refusals.map((refusal, number) => refusal?.event ?? this.runs[number].peaks.allocated.event);
    }

    /** True if the pinned moments are those that a page opens with. */
    get isPinnedAtOpening() {
        return this.moments.join() === this.openingMoments.join();
    }

    get pinnedAtPeak() {
        return this.runs.every(({ peaks }, number) => this.moments[number] === peaks.allocated.event);
    }

    /** The pinned moment in words. */
    get pinnedName() {
        if (this.refusals.some((refusal, number) => refusal?.event === this.moments[number])) return "the refusal";
        return this.pinnedAtPeak ? "the peak" : "the pinned moment";
    }

    /**
     * Pins the moment of a column of the area; for two runs, one for each.
     * @param {number[]} moments
     */
    pin(moments) {
        this.set({ moments });
    }

    /**
     * Returns the x of the pinned moment of a run.
     * @param {number} number
     */
    pinnedX(number) {
        return this.moments[number] < 0 ? 0 : this.axis.xs[number][this.moments[number]];
    }

    /**
     * By label, the word of it that the query is in (filter.js); null: no query.
     * @param {number} number
     */
    found(number) {
        return this.cache.found[number]([this.query], () =>
            findLabels(this.description, this.runs[number], this.query),
        );
    }

    /**
     * Returns the mask of labels without that of what is hidden.
     * @param {number} number
     */
    chosen(number) {
        const { labels } = this.runs[number];
        return this.cache.chosen[number]([this.colors, this.isolated, this.query, this.within], () =>
            joinMasks(
                colorMask(labels, this.isolated),
                foundMask(this.found(number)),
                moduleMask(this.description, labels, this.within),
            ),
        );
    }

    /**
     * Returns the mask of labels that are shown (filter.js).
     * @param {number} number
     */
    mask(number) {
        const { labels } = this.runs[number];
        return this.cache.mask[number]([this.chosen(number), this.hidden], () =>
            joinMasks(this.chosen(number), hiddenMask(this.description, labels, this.hidden)),
        );
    }

    /** True if not all blocks are shown. */
    get isFiltered() {
        return this.isolated >= 0 || this.query.trim() !== "" || this.within !== "" || this.hidden.length > 0;
    }

    /**
     * Returns the memory of a run's blocks that are shown, its index and its peak.
     * @param {number} number
     */
    shown(number) {
        const run = this.runs[number];
        const mask = this.mask(number);
        return this.cache.shown[number]([mask, run.memory], () => {
            if (!mask) return { memory: run.memory, peakIndex: run.peakIndex, peak: run.peaks.allocated };
            const events = changesOf(run.blocks, run.labels, run.eventCount, mask);
            const memory = makeMemory(events, run.sizes.block, this.colors.length);
            const peakIndex = makePeakIndex(memory);
            return { memory, peakIndex, peak: peakOf(peakIndex) };
        });
    }

    /**
     * Returns the highest moment of the blocks that are shown.
     * @param {number} number
     */
    shownPeak(number) {
        return this.shown(number).peak;
    }

    /** The bytes at the upper edge of the area. They are the same at every zoom, so that heights can be compared. */
    get areaTop() {
        const tops = this.runs.map((run, number) =>
            this.isFiltered ? this.shownPeak(number).bytes : Math.max(run.peaks.reserved.bytes, this.ghostTop(number)),
        );
        return Math.max(1, this.curveTop, ...tops, this.showsCapacity ? this.capacity : 0) * 1.02;
    }

    /** The bytes of the highest curve. */
    get curveTop() {
        return Math.max(...this.runs.map((_, number) => this.shownPeak(number).bytes));
    }

    /** True if the card's memory is drawn: it is within 1.5 of the curve. */
    get showsCapacity() {
        return !this.isFiltered && this.capacity > 0 && this.capacity <= 1.5 * this.curveTop;
    }

    /**
     * Returns the bytes that a run would have reserved with what was refused, as they are drawn; 0: nothing was.
     * @param {number} number
     */
    ghostTop(number) {
        const refusal = this.refusals[number];
        if (!refusal) return 0;
        const held = reservedAt(this.runs[number], refusal.event);
        return held + Math.min(refusal.bytes, held + this.capacity); // a request may be larger than any card
    }

    /** @param {number} number */
    levels(number) {
        return this.cache.levels[number]([this.axis], () => makeLevels(this.runs[number], this.axis, number));
    }

    /**
     * By label of a run, the first label that is alike.
     * @param {number} number
     */
    alike(number) {
        return this.cache.alike[number]([], () => alikeLabels(this.runs[number]));
    }

    /** The mask of emphasized blocks of the map's run; null: all blocks are equal. */
    get emphasis() {
        const mask = this.mask(this.mapRun);
        return this.cache.emphasis([mask, this.twins], () => joinMasks(mask, this.twins));
    }

    /** The ink of blocks of the map's run, by label. */
    get inks() {
        return this.cache.inks([this.mapRun, this.colors, this.emphasis], () =>
            inksOfLabels(this.runs[this.mapRun], this.emphasis),
        );
    }

    /** The rows of bars of the map's run. */
    get barRows() {
        return this.cache.barRows([this.mapRun, this.allDepths], () =>
            makeBarRows(this.runs[this.mapRun], this.allDepths),
        );
    }

    /**
     * Returns the moment at x in the map's run. All rows of bars ask for the same edges of pixels.
     * @param {number} x
     */
    momentAtX(x) {
        const known = this.cache.moments([this.axis, this.mapRun], () => new Map());
        if (known.size > MOST_MOMENTS) known.clear();
        let moment = known.get(x);
        if (moment === undefined) known.set(x, (moment = momentAt(this.axis, this.mapRun, x)));
        return moment;
    }

    /**
     * @param {GridPlace} place
     * @param {() => Grid} make
     */
    grid(place, make) {
        return this.cache.grid([this.inks, this.axis, place.x0, place.unit], make);
    }
}
