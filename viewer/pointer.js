/**
 * Mouse and fingers on the charts: wheel, drag, shift-drag, click, double click, pinch, and the window of the minimap.
 * While a button or a finger is down, there is a drag of one of these kinds:
 *
 *   click ──moved──▶ drag         pinch ──one of two fingers is gone──▶ rest ──moved──▶ drag
 */
import { momentAt } from "./axis.js";
import { barAt } from "./bars.js";
import { tellDuration } from "./dom.js";
import { insideOf, LEFT } from "./plot.js";
import { panAddressBy, withRange, zoomAddressAt, zoomAt } from "./view.js";

const CLICK_SLACK = 4; // pixels of movement that still make a click
const PIXELS_OF_WHEEL = [1, 20, 400]; // pixels in the units of a wheel: pixels, lines, pages
const LEAST_SPREAD = 20; // pixels between two fingers, below which they do not zoom

/** Returns the chart of a canvas: its data-chart, and for areas the run. */
function chartOf(target) {
    return { chart: target.dataset?.chart ?? "", number: Number(target.dataset?.run ?? 0) };
}

export class Pointer {
    constructor(scene, charts, painter) {
        this.scene = scene;
        this.charts = charts;
        this.painter = painter;
        this.plots = painter.plots;
        this.drag = null;
        this.last = null;
        this.fingers = new Map(); // fingers that are down, or the mouse: part of the charts' width, by pointerId
        charts.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
        charts.addEventListener("pointerdown", (event) => this.press(event));
        charts.addEventListener("pointermove", (event) => this.move(event));
        charts.addEventListener("pointerup", (event) => this.release(event));
        charts.addEventListener("pointercancel", (event) => this.letGo(event));
        charts.addEventListener("pointerleave", (event) => this.leave(event));
        charts.addEventListener("dblclick", (event) => this.zoomToBar(event));
    }

    /** Returns the position of the pointer: on the page's charts, on the axis, in the chart, among addresses. */
    at(event) {
        const { scene } = this;
        const { view } = scene;
        const { plots } = this;
        const target = this.drag?.target ?? event.target;
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

    /** Returns what the map shows at a point: the ink and the block. */
    mapUnder(at) {
        const began = performance.now();
        const found = this.painter.map.at(this.scene, at.x, at.address);
        tellDuration("hit", performance.now() - began);
        return found;
    }

    /** Returns the moments of the pointer's column, one a run. */
    momentsAt(at) {
        const { scene, painter } = this;
        return scene.runs.map((_, number) => {
            const columns = painter.columns[number];
            const column = Math.floor(Math.min(0.999999, Math.max(0, at.part)) * (columns?.moments.length ?? 0));
            return columns?.moments[column] ?? momentAt(scene.axis, number, at.x);
        });
    }

    wheel(event) {
        event.preventDefault();
        const { scene } = this;
        const at = this.at(event);
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

    /** Returns the view, moved along the axis as far as possible. */
    moved(view, by) {
        const span = view.x1 - view.x0;
        const begin = Math.min(Math.max(0, view.x0 + by), this.scene.axis.length - span);
        return { ...view, x0: begin, x1: begin + span };
    }

    press(event) {
        if (event.button !== 0 || !event.target.dataset?.chart) return;
        const at = this.at(event);
        this.fingers.set(event.pointerId, at.part);
        if (this.fingers.size > 1) return this.pinch();
        this.drag = { target: event.target, from: at, view: this.scene.view, kind: "click", measuring: event.shiftKey };
        if (at.chart === "minimap") this.dragMinimap(at);
    }

    /** Zooms so that the places under two fingers stay there. */
    pinch() {
        const { view } = this.scene;
        const span = view.x1 - view.x0;
        const held = [...this.fingers.values()].map((part) => view.x0 + part * span);
        this.drag = { ...this.drag, kind: "pinch", held };
    }

    movePinch() {
        const { scene } = this;
        const { held } = this.drag;
        const parts = [...this.fingers.values()];
        if (Math.abs(parts[1] - parts[0]) * this.plots.map.width < LEAST_SPREAD) return;
        const span = (held[1] - held[0]) / (parts[1] - parts[0]);
        if (!(span > 0)) return; // the fingers crossed
        const begin = held[0] - parts[0] * span;
        scene.set({ view: withRange(scene.view, scene.axis, begin, begin + span) });
    }

    /** Ends a finger, or the mouse. */
    letGo(event) {
        this.fingers.delete(event.pointerId);
        const isHeld = this.drag?.kind === "pinch" && this.fingers.size > 0;
        this.drag = isHeld ? { ...this.drag, kind: "rest" } : null;
    }

    move(event) {
        // A button that was released outside of the window shows in the buttons of a later event.
        if (event.buttons === 0 && this.fingers.has(event.pointerId)) this.letGo(event);
        const at = this.at(event);
        if (!this.drag) return this.hover(event, at);
        if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, at.part);
        if (this.drag.kind === "pinch") return this.movePinch();
        if (this.drag.kind === "rest") this.drag = { ...this.drag, kind: "drag", from: at, view: this.scene.view };
        const { from } = this.drag;
        if (this.drag.kind === "click") {
            if (Math.hypot(at.left - from.left, at.top - from.top) <= CLICK_SLACK) return;
            this.drag.kind = "drag";
            this.charts.setPointerCapture(event.pointerId); // not earlier: a captured click has lost its target
        }
        if (from.chart === "minimap") this.dragMinimap(at);
        else if (this.drag.measuring) this.scene.set({ measured: { x0: from.x, x1: at.x } });
        else this.dragView(at);
    }

    dragView(at) {
        const { scene } = this;
        const { from, view } = this.drag;
        let next = this.moved(view, (from.part - at.part) * (view.x1 - view.x0));
        if (from.chart === "map" && (view.low > 0 || view.high < scene.runs[scene.mapRun].addressBytes))
            next = panAddressBy(
                next,
                scene.runs[scene.mapRun].addressBytes,
                (at.top - from.top) / this.plots.map.height,
            );
        scene.set({ view: next });
    }

    /** Centres the window on the pointer. */
    dragMinimap(at) {
        const { scene } = this;
        const middle = Math.min(1, Math.max(0, at.part)) * scene.axis.length;
        scene.set({ view: this.moved(scene.view, middle - (scene.view.x0 + scene.view.x1) / 2) });
    }

    hover({ clientX, clientY, target }, at) {
        this.last = { clientX, clientY, target };
        this.scene.setHover(this.hoverAt(at));
    }

    /** Updates what is under a pointer that rests, since the view may have moved. Draws nothing. */
    rehover() {
        if (this.last && !this.drag) this.scene.hover = this.hoverAt(this.at(this.last));
    }

    /** Takes the tip away. A finger that is lifted leaves what its tap showed. */
    leave({ pointerType }) {
        if (pointerType === "touch") return;
        this.last = null;
        this.scene.setHover(null);
    }

    /** Returns the object under the pointer; null if there is none to describe. */
    hoverAt(at) {
        if (at.part < 0 || at.part > 1 || !at.chart || at.chart === "minimap") return null;
        if (at.chart === "map") return { ...at, ...this.mapUnder(at) };
        if (at.chart === "bars") return { ...at, bar: barAt(this.scene, at.x, at.inChart) };
        const moments = this.momentsAt(at);
        return { ...at, moments, moment: moments[at.number] };
    }

    release(event) {
        if (!this.drag) return;
        const at = this.at(event);
        const wasClick = this.drag.kind === "click";
        this.letGo(event);
        if (!wasClick || event.shiftKey || at.chart === "minimap" || at.part < 0 || at.part > 1) return;
        this.click(at);
        if (event.pointerType === "touch") this.hover(event, at); // a tap shows what a pointer at rest does
    }

    click(at) {
        const { scene } = this;
        if (at.chart === "map") {
            scene.set({ selected: this.mapUnder(at).block, twins: null });
            return;
        }
        const bar = at.chart === "bars" ? barAt(scene, at.x, at.inChart) : null;
        if (bar) scene.set({ bar: { lane: bar.row.lane, i: bar.i } });
        scene.pin(this.momentsAt(at));
    }

    zoomToBar(event) {
        const at = this.at(event);
        const bar = at.chart === "bars" ? barAt(this.scene, at.x, at.inChart) : null;
        if (bar) this.scene.set({ view: withRange(this.scene.view, this.scene.axis, bar.x0, bar.x1) });
    }
}
