/**
 * Mouse and fingers on the charts: wheel, drag, shift-drag, click, double click, pinch, and the window of the minimap.
 * While a button or a finger is down, there is a drag of one of these kinds:
 *
 *   click ──moved──▶ drag         pinch ──one of two fingers is gone──▶ rest ──moved──▶ drag
 *
 * @typedef {Object} At   a position of the pointer
 * @property {string} chart   "minimap", "bars", "area", "difference", "map" or ""
 * @property {number} number   of the run, of areas
 * @property {HTMLElement} target
 * @property {number} part   of the width of the charts
 * @property {number} left   on the charts, in pixels
 * @property {number} top
 * @property {number} inChart   pixels from the upper edge of the chart
 * @property {number} x   on the axis
 * @property {number} address
 *
 * @typedef {Object} HoverParts   what is there, by chart
 * @property {number} [ink]
 * @property {number} [block]
 * @property {?import("./bars.js").BarInRow} [bar]
 * @property {number[]} [moments]   of each run
 * @property {number} [moment]
 *
 * @typedef {At & HoverParts} Hover
 *
 * @typedef {Object} Drag
 * @property {"click" | "drag" | "pinch" | "rest"} kind
 * @property {HTMLElement} target
 * @property {At} from
 * @property {View} view   when it began
 * @property {boolean} measuring
 * @property {number[]} held   the places on the axis that two fingers hold; none without them
 */
import { bytesAtHeight } from "./area.js";
import { blockUnder, columnUnder } from "./area_pick.js";
import { momentAt } from "./axis.js";
import { barAt } from "./bars.js";
import { tellDuration } from "./dom.js";
import { insideOf, LEFT } from "./plot.js";
import { panAddressBy, withRange, zoomAddressAt, zoomAt } from "./view.js";

const CLICK_SLACK = 4; // pixels of movement that still make a click
const PIXELS_OF_WHEEL = [1, 20, 400]; // pixels in the units of a wheel: pixels, lines, pages
const SAME_SCROLL_MS = 200; // between two turns of the wheel that scroll on
const LEAST_SPREAD = 20; // pixels between two fingers, below which they do not zoom

/**
 * Returns the chart of a canvas: its data-chart, and for areas the run.
 * @param {HTMLElement} target
 */
function chartOf(target) {
    return { chart: target.dataset.chart ?? "", number: Number(target.dataset.run ?? 0) };
}

/**
 * Returns the element of an event; the charts as a whole for none.
 * @param {Pick<Event, "target">} event
 * @param {HTMLElement} charts
 */
function targetOf({ target }, charts) {
    return target instanceof HTMLElement ? target : charts;
}

export class Pointer {
    /**
     * @param {Scene} scene
     * @param {HTMLElement} charts
     * @param {Painter} painter
     */
    constructor(scene, charts, painter) {
        this.scene = scene;
        this.charts = charts;
        this.painter = painter;
        this.plots = painter.plots;
        /** @type {?Drag} */
        this.drag = null;
        /** @type {?Pick<MouseEvent, "clientX" | "clientY" | "target">} */
        this.last = null; // where the pointer rests
        this.forgotten = this.last; // where it rested when the tip was taken away
        this.scrolled = -Infinity; // when a turn of the wheel scrolled the page
        this.fingers = new Map(); // fingers that are down, or the mouse: part of the charts' width, by pointerId
        charts.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
        window.addEventListener("wheel", (event) => this.wheelElsewhere(event), { passive: true });
        charts.addEventListener("pointerdown", (event) => this.press(event));
        charts.addEventListener("pointermove", (event) => this.move(event));
        charts.addEventListener("pointerup", (event) => this.release(event));
        charts.addEventListener("pointercancel", (event) => this.letGo(event));
        charts.addEventListener("pointerleave", (event) => this.leave(event));
        window.addEventListener("keydown", () => this.forget());
        window.addEventListener("scroll", () => this.forget(), { capture: true, passive: true });
        charts.addEventListener("dblclick", (event) => this.zoomToBar(event));
    }

    /**
     * Returns the position of the pointer: on the page's charts, on the axis, in the chart, among addresses.
     * @param {Pick<MouseEvent, "clientX" | "clientY" | "target">} event
     * @returns {At}
     */
    at(event) {
        const { scene } = this;
        const { view } = scene;
        const { plots } = this;
        const target = this.drag?.target ?? targetOf(event, this.charts);
        const [left, top] = insideOf(this.charts);
        const inChart = event.clientY - target.getBoundingClientRect().top;
        const part = (event.clientX - left - LEFT) / plots.map.width;
        return {
            ...chartOf(target),
            target,
            part,
            left: event.clientX - left,
            top: event.clientY - top,
            inChart,
            x: view.x0 + Math.min(1, Math.max(0, part)) * (view.x1 - view.x0),
            address: view.high - (inChart / plots.map.height) * (view.high - view.low),
        };
    }

    /**
     * Returns what the map shows at a point: the ink and the block.
     * @param {At} at
     */
    mapUnder(at) {
        const began = performance.now();
        const found = this.painter.map.at(this.scene, at.x, at.address);
        tellDuration("hit", performance.now() - began);
        return found;
    }

    /**
     * Returns the moments of the pointer's column, one a run.
     * @param {At} at
     */
    momentsAt(at) {
        const { scene, painter } = this;
        return scene.runs.map((_, number) => {
            const columns = painter.columns[number];
            const column = Math.floor(Math.min(0.999999, Math.max(0, at.part)) * (columns?.moments.length ?? 0));
            return columns?.moments[column] ?? momentAt(scene.axis, number, at.x);
        });
    }

    /**
     * True if a turn of the wheel scrolls the page: beside the charts, where they show everything and it would zoom out, and as
     * long as it goes on with that.
     * @param {WheelEvent} event
     * @param {At} at
     */
    isScroll(event, at) {
        if (event.ctrlKey || event.altKey) return false;
        const isBeside = at.chart === "" || at.part < 0 || at.part > 1;
        const isUpright = Math.abs(event.deltaY) >= Math.abs(event.deltaX);
        const isAtEnd = isUpright && event.deltaY > 0 && this.scene.isWide;
        return isBeside || isAtEnd || event.timeStamp - this.scrolled < SAME_SCROLL_MS;
    }

    /**
     * Notes a turn of the wheel outside of the charts, which scrolls.
     * @param {WheelEvent} event
     */
    wheelElsewhere({ target, timeStamp }) {
        if (!(target instanceof Node && this.charts.contains(target))) this.scrolled = timeStamp;
    }

    /** @param {WheelEvent} event */
    wheel(event) {
        const { scene } = this;
        const at = this.at(event);
        if (this.isScroll(event, at)) {
            this.scrolled = event.timeStamp;
            return;
        }
        event.preventDefault();
        const [right, down] = [event.deltaX, event.deltaY].map((each) => each * PIXELS_OF_WHEEL[event.deltaMode]);
        // A pinch on a trackpad arrives as a wheel with Ctrl and small values.
        const factor = Math.exp(Math.max(-1, Math.min(1, down * (event.ctrlKey ? 0.01 : 0.002))));
        const bytes = scene.runs[scene.mapRun].addressBytes;
        if (at.chart === "map" && event.altKey)
            scene.set({ view: zoomAddressAt(scene.view, bytes, at.address, factor) });
        else if (Math.abs(right) > Math.abs(down)) {
            const by = (right / this.plots.map.width) * (scene.view.x1 - scene.view.x0);
            scene.set({ view: this.moved(scene.view, by) });
        } else scene.set({ view: zoomAt(scene.view, scene.axis, at.x, factor) });
    }

    /**
     * Returns the view, moved along the axis as far as possible.
     * @param {View} view
     * @param {number} by
     */
    moved(view, by) {
        const span = view.x1 - view.x0;
        const begin = Math.min(Math.max(0, view.x0 + by), this.scene.axis.length - span);
        return { ...view, x0: begin, x1: begin + span };
    }

    /** @param {PointerEvent} event */
    press(event) {
        if (event.button !== 0 || !targetOf(event, this.charts).dataset.chart) return;
        const at = this.at(event);
        this.fingers.set(event.pointerId, at.part);
        if (this.drag && this.fingers.size > 1) return this.pinch(this.drag);
        this.drag = {
            target: at.target,
            from: at,
            view: this.scene.view,
            kind: "click",
            measuring: event.shiftKey,
            held: [],
        };
        if (at.chart === "minimap") this.dragMinimap(at);
    }

    /**
     * Zooms so that the places under two fingers stay there.
     * @param {Drag} drag
     */
    pinch(drag) {
        const { view } = this.scene;
        const span = view.x1 - view.x0;
        const held = [...this.fingers.values()].map((part) => view.x0 + part * span);
        this.drag = { ...drag, kind: "pinch", held };
    }

    /** @param {number[]} held */
    movePinch(held) {
        const { scene } = this;
        const parts = [...this.fingers.values()];
        if (Math.abs(parts[1] - parts[0]) * this.plots.map.width < LEAST_SPREAD) return;
        const span = (held[1] - held[0]) / (parts[1] - parts[0]);
        if (!(span > 0)) return; // the fingers crossed
        const begin = held[0] - parts[0] * span;
        scene.set({ view: withRange(scene.view, scene.axis, begin, begin + span) });
    }

    /**
     * Ends a finger, or the mouse.
     * @param {PointerEvent} event
     */
    letGo(event) {
        this.fingers.delete(event.pointerId);
        this.drag = this.drag?.kind === "pinch" && this.fingers.size > 0 ? { ...this.drag, kind: "rest" } : null;
    }

    /** @param {PointerEvent} event */
    move(event) {
        // A button that was released outside of the window shows in the buttons of a later event.
        if (event.buttons === 0 && this.fingers.has(event.pointerId)) this.letGo(event);
        const at = this.at(event);
        if (!this.drag) return this.hover(event, at);
        if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, at.part);
        if (this.drag.kind === "pinch") return this.movePinch(this.drag.held);
        if (this.drag.kind === "rest") this.drag = { ...this.drag, kind: "drag", from: at, view: this.scene.view };
        const { from } = this.drag;
        if (this.drag.kind === "click") {
            if (Math.hypot(at.left - from.left, at.top - from.top) <= CLICK_SLACK) return;
            this.drag.kind = "drag";
            this.charts.setPointerCapture(event.pointerId); // not earlier: a captured click has lost its target
        }
        if (from.chart === "minimap") this.dragMinimap(at);
        else if (this.drag.measuring) this.scene.set({ measured: { x0: from.x, x1: at.x } });
        else this.dragView(this.drag, at);
    }

    /**
     * @param {Drag} drag
     * @param {At} at
     */
    dragView({ from, view }, at) {
        const { scene } = this;
        let next = this.moved(view, (from.part - at.part) * (view.x1 - view.x0));
        if (from.chart === "map" && (view.low > 0 || view.high < scene.runs[scene.mapRun].addressBytes))
            next = panAddressBy(
                next,
                scene.runs[scene.mapRun].addressBytes,
                (at.top - from.top) / this.plots.map.height,
            );
        scene.set({ view: next });
    }

    /**
     * Centres the window on the pointer.
     * @param {At} at
     */
    dragMinimap(at) {
        const { scene } = this;
        const middle = Math.min(1, Math.max(0, at.part)) * scene.axis.length;
        scene.set({ view: this.moved(scene.view, middle - (scene.view.x0 + scene.view.x1) / 2) });
    }

    /**
     * @param {PointerEvent} event
     * @param {At} at
     */
    hover({ clientX, clientY, target }, at) {
        // A browser sends a move of its own after the page has scrolled below the pointer.
        if (this.forgotten?.clientX === clientX && this.forgotten.clientY === clientY) return;
        this.forgotten = null;
        this.last = { clientX, clientY, target };
        this.scene.setHover(this.hoverAt(at));
    }

    /** Updates what is under a pointer that rests, since the view may have moved. Draws nothing. */
    rehover() {
        if (this.last && !this.drag) this.scene.hover = this.hoverAt(this.at(this.last));
    }

    /**
     * Takes the tip away. A finger that is lifted leaves what its tap showed.
     * @param {PointerEvent} event
     */
    leave({ pointerType }) {
        if (pointerType !== "touch") this.forget();
    }

    /** Takes the tip away until the pointer moves again. */
    forget() {
        this.forgotten = this.last ?? this.forgotten;
        this.last = null;
        this.scene.setHover(null);
    }

    /**
     * Returns the object under the pointer; null if there is none to describe.
     * @param {At} at
     */
    hoverAt(at) {
        if (at.part < 0 || at.part > 1 || !at.chart || at.chart === "minimap") return null;
        if (at.chart === "map") return { ...at, ...this.mapUnder(at) };
        if (at.chart === "bars") return { ...at, bar: barAt(this.scene, at.x, at.inChart) };
        const moments = this.momentsAt(at);
        return { ...at, moments, moment: moments[at.number] };
    }

    /** @param {PointerEvent} event */
    release(event) {
        if (!this.drag) return;
        const at = this.at(event);
        const wasClick = this.drag.kind === "click";
        this.letGo(event);
        if (!wasClick || event.shiftKey || at.chart === "minimap" || at.part < 0 || at.part > 1) return;
        this.click(at);
        if (event.pointerType === "touch") this.hover(event, at); // a tap shows what a pointer at rest does
    }

    /** @param {At} at */
    click(at) {
        const { scene } = this;
        if (at.chart === "map") {
            scene.set({ selected: this.mapUnder(at).block, twins: null });
            return;
        }
        if (at.chart === "area") return this.clickArea(at);
        const bar = at.chart === "bars" ? barAt(scene, at.x, at.inChart) : null;
        if (bar) scene.set({ bar: { lane: bar.row.lane, i: bar.i } });
        scene.pin(this.momentsAt(at));
    }

    /**
     * Pins the moment of a column of an area, and selects the block under the pointer if the map shows that run.
     * @param {At} at
     */
    clickArea(at) {
        const { scene, painter } = this;
        const plot = this.plots.areas[at.number];
        const columns = painter.columns[at.number];
        const bytes = bytesAtHeight(plot, scene, at.inChart);
        const column = columnUnder(columns, at.part, bytes, plot.scale);
        const part = column < 0 ? at.part : (column + 0.5) / columns.moments.length;
        const isInMap = column >= 0 && at.number === scene.mapRun;
        scene.set({
            moments: this.momentsAt({ ...at, part }),
            selected: isInMap ? blockUnder(scene, at.number, columns, column, bytes) : -1,
            twins: null,
        });
    }

    /** @param {MouseEvent} event */
    zoomToBar(event) {
        const at = this.at(event);
        const bar = at.chart === "bars" ? barAt(this.scene, at.x, at.inChart) : null;
        if (bar) this.scene.set({ view: withRange(this.scene.view, this.scene.axis, bar.x0, bar.x1) });
    }
}
