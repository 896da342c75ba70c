/** The numbers of a measured range, in a box where it was drawn. */
import { byId, setText } from "./dom.js";
import { LEFT } from "./plot.js";
import { measuredText } from "./range.js";

const BELOW_EDGE = 22; // pixels between the upper edge of the first area and the box

export class MeasuredBox {
    /**
     * @param {Scene} scene
     * @param {Plots} plots
     */
    constructor(scene, plots) {
        this.scene = scene;
        this.plots = plots;
        this.box = byId("measure");
        /** @type {unknown[]} */
        this.from = []; // what the text is about
    }

    update() {
        const { measured, axis, timed } = this.scene;
        const from = [measured, axis, timed];
        if (from.some((each, i) => each !== this.from[i])) setText(this.box, measuredText(this.scene));
        this.from = from;
        if (measured) this.place(measured);
    }

    /**
     * Puts the box into the range, or next to one that is narrower, and keeps it on the charts.
     * @param {{x0: number, x1: number}} measured
     */
    place({ x0, x1 }) {
        const { view } = this.scene;
        const [plot] = this.plots.areas;
        /** @param {number} x */
        const leftOf = (x) => ((x - view.x0) / (view.x1 - view.x0)) * plot.width;
        const [from, to] = [leftOf(Math.min(x0, x1)), leftOf(Math.max(x0, x1))];
        const width = this.box.offsetWidth;
        const inside = to - from >= width + 8;
        const left = inside ? Math.max(from, 0) + 4 : to + 4 + width <= plot.width ? to + 4 : from - width - 4;
        this.box.style.left = `${LEFT + Math.min(plot.width - width, Math.max(0, left))}px`;
        this.box.style.top = `${plot.canvas.offsetTop + BELOW_EDGE}px`;
    }
}
