/**
 * The layer over the charts that changes with every move of the pointer: the pinned moment, the pointer's line, the
 * selected block, the measured range, and the tip beside the pointer. So the charts need not be drawn again.
 *
 * @typedef {import("./tip_place.js").Curve} Curve
 */
import { ABOVE } from "./area.js";
import { BEFORE_ALL } from "./axis.js";
import { barBox } from "./bars.js";
import { tensorOpLineText } from "./block_words.js";
import { compositionAt } from "./composition.js";
import { byId, contextOf, setText } from "./dom.js";
import { CACHED } from "./inks.js";
import { blockBox } from "./map.js";
import { changeText, countText, sizeText, timeText } from "./numbers.js";
import { insideOf, LEFT, strokeOnAny } from "./plot.js";
import { placeTip } from "./tip_place.js";
import { describeMoment, launcherText } from "./where.js";

/**
 * Draws a vertical line through all charts.
 * @param {Overlay} overlay
 * @param {Scene} scene
 * @param {number} x
 * @param {string} color
 * @param {number} width
 * @param {number[]} [dash]
 */
function line(overlay, scene, x, color, width, dash = []) {
    const { context, plotWidth, height } = overlay;
    const at = ((x - scene.view.x0) / (scene.view.x1 - scene.view.x0)) * plotWidth;
    if (at < 0 || at > plotWidth) return;
    context.strokeStyle = color;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(LEFT + at, 0);
    context.lineTo(LEFT + at, height);
    context.stroke();
    context.setLineDash([]);
}

/**
 * @param {Overlay} overlay
 * @param {Scene} scene
 */
function outlineSelected(overlay, scene) {
    const plot = overlay.plots.map;
    const box = blockBox(plot, scene, scene.mapRun, scene.selected);
    const { context } = overlay;
    const top = overlay.topOf(plot.canvas);
    context.save();
    context.beginPath();
    context.rect(LEFT, top, plot.width, plot.height);
    context.clip();
    const width = Math.max(3, box.right - box.left);
    const high = Math.max(3, box.bottom - box.top);
    context.beginPath();
    context.rect(LEFT + box.left - 1, top + box.top - 1, width + 2, high + 2);
    strokeOnAny(context, scene.theme);
    context.restore();
}

/**
 * @param {Overlay} overlay
 * @param {Scene} scene
 * @param {Bar} bar
 */
function outlineBar(overlay, scene, bar) {
    const plot = overlay.plots.bars;
    const box = barBox(plot, scene, bar.lane, bar.i);
    if (!box) return;
    const { context } = overlay;
    const top = overlay.topOf(plot.canvas) + box.top;
    context.strokeStyle = scene.theme.accent;
    context.lineWidth = 2;
    context.strokeRect(LEFT + box.left - 1, top, Math.max(3, box.right - box.left) + 2, box.bottom - box.top);
}

/**
 * @param {Overlay} overlay
 * @param {Scene} scene
 * @param {{x0: number, x1: number}} measured
 */
function shadeMeasured(overlay, scene, measured) {
    const { context, plotWidth, height } = overlay;
    const { view } = scene;
    const [from, to] = [measured.x0, measured.x1].map((x) =>
        Math.min(plotWidth, Math.max(0, ((x - view.x0) / (view.x1 - view.x0)) * plotWidth)),
    );
    context.globalAlpha = 0.16;
    context.fillStyle = scene.theme.accent;
    context.fillRect(LEFT + Math.min(from, to), 0, Math.abs(to - from), height);
    context.globalAlpha = 1;
    line(overlay, scene, measured.x0, scene.theme.accent, 1);
    line(overlay, scene, measured.x1, scene.theme.accent, 1);
}

/**
 * @param {Scene} scene
 * @param {Hover} hover
 */
function areaTip(scene, hover) {
    const number = hover.number;
    const run = scene.runs[number];
    const moment = hover.moment ?? BEFORE_ALL;
    const bytes = compositionAt(scene.shown(number).memory, moment, new Float64Array(scene.colors.length));
    const all = bytes.reduce((sum, each) => sum + each, 0);
    const most = scene.colors
        .map(({ name }, i) => ({ name, each: bytes[i] }))
        .filter(({ each }) => each > 0)
        .sort((a, b) => b.each - a.each);
    const place = describeMoment(scene.description, run, moment);
    return [
        `${sizeText(all)} allocated`,
        [place.step, place.phase].filter((text) => text).join(" · ") || place.event,
        ...most.slice(0, 4).map(({ name, each }) => `${sizeText(each)}  ${name}`),
    ];
}

/**
 * @param {Scene} scene
 * @param {Hover} hover
 */
function mapTip(scene, hover) {
    const run = scene.runs[scene.mapRun];
    if (hover.ink === CACHED) return ["cached: reserved, in no block"];
    const { block = -1 } = hover;
    if (block < 0) return [];
    const { texts } = scene.description;
    const { labels, blocks } = run;
    const label = blocks.label[block];
    const words = [scene.colors[labels.color[label]].name, texts[labels.phase[label]], texts[labels.span[label]]];
    return [tensorOpLineText(scene, block), words.filter((text) => text).join(" · ")];
}

/**
 * @param {Scene} scene
 * @param {Hover} hover
 */
function differenceTip(scene, hover) {
    const [a, b] = (hover.moments ?? []).map((moment, i) =>
        compositionAt(scene.shown(i).memory, moment, new Float64Array(scene.colors.length)),
    );
    const changes = scene.colors
        .map(({ name }, i) => ({ name, each: b[i] - a[i] }))
        .filter(({ each }) => each !== 0)
        .sort((first, second) => Math.abs(second.each) - Math.abs(first.each));
    const all = changes.reduce((sum, { each }) => sum + each, 0);
    return [
        `${changeText(all)} allocated`,
        ...changes.slice(0, 6).map(({ name, each }) => `${changeText(each)}  ${name}`),
    ];
}

/**
 * @param {Scene} scene
 * @param {Hover} hover
 */
function barTip(scene, hover) {
    if (!hover.bar) return [];
    const { x0, x1, text, row, i } = hover.bar;
    const kind = scene.axis.kind;
    const length = kind === "time" ? timeText(x1 - x0) : `${countText(x1 - x0)} events`;
    return row.lane.kind === "kernel"
        ? [text, length, launcherText(scene.description, scene.runs[scene.mapRun], row.lane.label[i])]
        : [text, length];
}

/** @type {Record<string, (scene: Scene, hover: Hover) => string[]>} */
const TIPS = { area: areaTip, map: mapTip, bars: barTip, difference: differenceTip };

export class Overlay {
    /**
     * @param {HTMLCanvasElement} canvas
     * @param {HTMLElement} charts   that the canvas lies over
     * @param {Plots} plots   in them
     */
    constructor(canvas, charts, plots) {
        this.canvas = canvas;
        this.charts = charts;
        this.plots = plots;
        this.context = contextOf(canvas);
        this.tip = byId("tip");
        /** @type {AreaColumns[]} */
        this.columns = []; // of each area, as they were last drawn
        this.isEmpty = true;
        this.width = 0;
        this.height = 0;
        this.plotWidth = 0;
    }

    /** @param {HTMLCanvasElement} canvas */
    topOf(canvas) {
        return canvas.getBoundingClientRect().top - insideOf(this.charts)[1];
    }

    /** @param {number} plotWidth */
    fit(plotWidth) {
        const { width, height } = this.canvas.getBoundingClientRect();
        const ratio = Math.min(2, window.devicePixelRatio || 1);
        this.canvas.width = Math.round(width * ratio);
        this.canvas.height = Math.round(height * ratio);
        this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
        this.width = width;
        this.height = height;
        this.plotWidth = plotWidth;
        this.isEmpty = true;
    }

    /** @param {Scene} scene */
    draw(scene) {
        // Does not clear on paper, where that would erase the charts below. There, the overlay is new.
        if (!this.isEmpty) this.context.clearRect(0, 0, this.width, this.height);
        this.isEmpty = false;
        if (scene.measured) shadeMeasured(this, scene, scene.measured);
        scene.runs.forEach((_, number) => {
            if (scene.moments[number] >= 0 && (scene.axis.kind !== "phase" || number === scene.mapRun))
                line(this, scene, scene.pinnedX(number), scene.theme.accent, 1.5);
        });
        if (scene.selected >= 0) outlineSelected(this, scene);
        if (scene.bar) outlineBar(this, scene, scene.bar);
        if (scene.hover) line(this, scene, scene.hover.x, scene.theme.faint, 1, [3, 3]);
        this.drawTip(scene);
    }

    /** @param {Scene} scene */
    drawTip(scene) {
        const { hover } = scene;
        const lines = hover ? (TIPS[hover.chart]?.(scene, hover) ?? []) : [];
        this.tip.hidden = lines.length === 0;
        if (!hover || lines.length === 0) return;
        setText(this.tip, lines.map((text) => (text.length > 120 ? `${text.slice(0, 118)}…` : text)).join("\n"));
        const { width, height } = this.tip.getBoundingClientRect();
        const at = placeTip({ width, height }, hover, this, this.curves(scene));
        this.tip.style.left = `${at.left}px`;
        this.tip.style.top = `${at.top}px`;
    }

    /**
     * Returns the upper edges of the areas.
     * @param {Scene} scene
     * @returns {Curve[]}
     */
    curves(scene) {
        return this.plots.areas.map((plot, number) => {
            const { bytes = new Float64Array(0) } = this.columns[number] ?? {};
            const top = this.topOf(plot.canvas) + ABOVE;
            const height = plot.height - ABOVE;
            return {
                bottom: top + height,
                heights: Float64Array.from(bytes, (each) => (each / scene.areaTop) * height),
                pitch: plot.width / Math.max(1, bytes.length),
            };
        });
    }
}
