/** The mouse over the charts: wheel, drag, shift-drag, click, double click, and the minimap's window. */
import { momentAt } from "./axis.js";
import { barAt } from "./bars.js";
import { blockAt } from "./map.js";
import { LEFT } from "./plot.js";
import { panAddressBy, withRange, zoomAddressAt, zoomAt } from "./view.js";

const CLICK_SLACK = 4; // pixels that a hand may move between press and release

/** What a chart's canvas is: its data-chart, and for areas the run. */
function chartOf(target) {
    return { chart: target.dataset?.chart ?? "", number: Number(target.dataset?.run ?? 0) };
}

export class Pointer {
    constructor(scene, charts) {
        Object.assign(this, { scene, charts, drag: null });
        charts.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
        charts.addEventListener("pointerdown", (event) => this.press(event));
        charts.addEventListener("pointermove", (event) => this.move(event));
        charts.addEventListener("pointerup", (event) => this.release(event));
        charts.addEventListener("pointercancel", () => {
            this.drag = null;
        });
        charts.addEventListener("pointerleave", () => scene.setHover(null));
        charts.addEventListener("dblclick", (event) => this.zoomToBar(event));
    }

    /** Where the pointer is: on the page's charts, on the axis, in the chart, among addresses. */
    at(event) {
        const { scene } = this;
        const { view, plots } = scene;
        const target = this.drag?.target ?? event.target;
        const box = this.charts.getBoundingClientRect();
        const inChart = event.clientY - target.getBoundingClientRect().top;
        const part = (event.clientX - box.left - LEFT) / plots.map.width;
        return {
            ...chartOf(target),
            target,
            part,
            left: event.clientX - box.left,
            top: event.clientY - box.top,
            inChart,
            x: view.x0 + Math.min(1, Math.max(0, part)) * (view.x1 - view.x0),
            address: view.high - (inChart / plots.map.height) * (view.high - view.low),
        };
    }

    blockUnder(at) {
        const { scene } = this;
        const { view, plots } = scene;
        const began = performance.now();
        const block = blockAt(
            scene,
            at.x,
            at.address,
            (view.x1 - view.x0) / plots.map.width,
            (view.high - view.low) / plots.map.height,
        );
        scene.told("hit", performance.now() - began);
        return block;
    }

    /** The moments that the pointer's column shows, one a run. */
    momentsAt(at) {
        const { scene } = this;
        return scene.runs.map((_, number) => {
            const columns = scene.columns[number];
            const column = Math.floor(Math.min(0.999999, Math.max(0, at.part)) * (columns?.moments.length ?? 0));
            return columns?.moments[column] ?? momentAt(scene.axis, number, at.x);
        });
    }

    wheel(event) {
        event.preventDefault();
        const { scene } = this;
        const at = this.at(event);
        const amount = event.deltaY * (event.deltaMode === 1 ? 20 : 1);
        const factor = Math.exp(Math.max(-1, Math.min(1, amount * 0.002)));
        const bytes = scene.runs[scene.mapRun].addressBytes;
        if (at.chart === "map" && event.altKey)
            scene.set({ view: zoomAddressAt(scene.view, bytes, at.address, factor) });
        else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            const by = (event.deltaX / scene.plots.map.width) * (scene.view.x1 - scene.view.x0);
            scene.set({ view: this.moved(scene.view, by) });
        } else scene.set({ view: zoomAt(scene.view, scene.axis, at.x, factor) });
    }

    /** The view moved along the axis, as far as it goes. */
    moved(view, by) {
        const span = view.x1 - view.x0;
        const begin = Math.min(Math.max(0, view.x0 + by), this.scene.axis.length - span);
        return { ...view, x0: begin, x1: begin + span };
    }

    press(event) {
        if (event.button !== 0 || !event.target.dataset?.chart) return;
        const at = this.at(event);
        this.drag = { target: event.target, from: at, view: this.scene.view, kind: "click", measuring: event.shiftKey };
        if (at.chart === "minimap") this.dragMinimap(at);
    }

    move(event) {
        const at = this.at(event);
        if (!this.drag) return this.hover(at);
        const { from } = this.drag;
        if (this.drag.kind === "click") {
            if (Math.hypot(at.left - from.left, at.top - from.top) <= CLICK_SLACK) return;
            this.drag.kind = "drag";
            this.charts.setPointerCapture(event.pointerId); // not before: a captured click has lost its target
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
                (at.top - from.top) / scene.plots.map.height,
            );
        scene.set({ view: next });
    }

    /** The window is centred on the pointer. */
    dragMinimap(at) {
        const { scene } = this;
        const middle = Math.min(1, Math.max(0, at.part)) * scene.axis.length;
        scene.set({ view: this.moved(scene.view, middle - (scene.view.x0 + scene.view.x1) / 2) });
    }

    hover(at) {
        const { scene } = this;
        if (at.part < 0 || at.part > 1 || !at.chart || at.chart === "minimap") return scene.setHover(null);
        const hover = { ...at };
        if (at.chart === "map") hover.block = this.blockUnder(at);
        else if (at.chart === "bars") hover.bar = barAt(scene, at.x, at.inChart);
        else {
            hover.moments = this.momentsAt(at);
            hover.moment = hover.moments[at.number];
        }
        scene.setHover(hover);
    }

    release(event) {
        if (!this.drag) return;
        const at = this.at(event);
        const wasClick = this.drag.kind === "click";
        this.drag = null;
        if (wasClick && !event.shiftKey && at.chart !== "minimap" && at.part >= 0 && at.part <= 1) this.click(at);
    }

    click(at) {
        const { scene } = this;
        if (at.chart === "map") {
            const block = this.blockUnder(at);
            scene.set({ selected: block, twins: null });
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
