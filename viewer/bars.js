/**
 * The bars above the charts: the ticks of the axis, then a row each for program phases, steps, phases, the depths of spans, and
 * kernels. Bars narrower than a pixel are drawn as part of one, and the other bars of that pixel are skipped by
 * bisection.
 *
 * @typedef {{lane: Lane, height: number, top: number}} BarRow
 * @typedef {{lane: Lane, i: number}} Bar   an interval of a lane
 * @typedef {{row: BarRow, i: number, x0: number, x1: number, text: string}} BarInRow   x0 and x1 on the axis
 */
import { allLanes, lastAtMost, lastOf } from "./marks.js";
import { countText, decimalStep, timeTick } from "./numbers.js";
import { fitText, LEFT } from "./plot.js";

export const TICKS_HEIGHT = 20;
const BETWEEN_TICKS = 14; // pixels between texts that are not evenly spaced
const ROW_HEIGHT = { program: 17, step: 18, phase: 17, span: 15, kernel: 15 };
/** Rows of spans that are shown until all are asked for. */
export const FEW_DEPTHS = 1;

/**
 * Returns the rows of a run's bars: one for each lane, with all depths of spans or few.
 * @param {Run} run
 * @param {boolean} allDepths
 */
export function makeBarRows({ lanes }, allDepths) {
    const rows = [];
    let top = TICKS_HEIGHT;
    const spans = allDepths ? lanes.spans : lanes.spans.slice(0, FEW_DEPTHS);
    for (const lane of allLanes({ ...lanes, spans })) {
        if (lane.begin.length === 0) continue;
        rows.push({ lane, height: ROW_HEIGHT[lane.kind], top });
        top += ROW_HEIGHT[lane.kind];
    }
    return rows;
}

/** @param {BarRow[]} rows */
export function barsHeight(rows) {
    return rows.length > 0 ? lastOf(rows).top + lastOf(rows).height + 3 : TICKS_HEIGHT;
}

/**
 * Returns the x of a position in a lane: an event, or for kernels a time.
 * @param {Scene} scene
 * @param {BarRow} row
 * @param {number} at
 */
function xOf(scene, row, at) {
    const xs = scene.axis.xs[scene.mapRun];
    if (row.lane.kind !== "kernel") return xs[at];
    if (scene.axis.kind === "time") return at;
    return xs[Math.max(0, lastAtMost(scene.runs[scene.mapRun].time, at))];
}

/**
 * Returns the position in a lane at x: the first event after it; for kernels, the time.
 * @param {Scene} scene
 * @param {BarRow} row
 * @param {number} x
 */
function positionAt(scene, row, x) {
    const event = scene.momentAtX(x) + 1;
    if (row.lane.kind !== "kernel") return event;
    const { time, eventCount } = scene.runs[scene.mapRun];
    return scene.axis.kind === "time" ? x : time[Math.min(event, eventCount)];
}

/**
 * Returns the first interval of a row, from `from` on, that ends after x. Searches in doubling steps, since it is
 * mostly near.
 * @param {Scene} scene
 * @param {BarRow} row
 * @param {number} x
 * @param {number} [from]
 */
function firstEndingAfter(scene, row, x, from = 0) {
    const { end } = row.lane;
    const position = positionAt(scene, row, x);
    /** @param {number} i */
    const after = (i) => (row.lane.kind === "kernel" ? end[i] > position : end[i] >= position);
    let low = from;
    let reach = 1;
    while (low + reach < end.length && !after(low + reach)) {
        low += reach;
        reach *= 2;
    }
    let high = Math.min(end.length, low + reach);
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (after(middle)) high = middle;
        else low = middle + 1;
    }
    return low;
}

/**
 * Returns the text of an interval: in full, and as it is written into a bar.
 * @param {Scene} scene
 * @param {Pick<BarRow, "lane">} row
 * @param {number} i
 */
export function intervalText(scene, row, i) {
    const { lane } = row;
    const { texts, phases } = scene.description;
    if (lane.kind === "step") return `step ${lane.text[i]}`;
    if (lane.kind === "phase") return phases[lane.text[i]] ?? "?";
    return texts[lane.text[i]];
}

/**
 * @param {BarRow} row
 * @param {string} text
 */
function barText(row, text) {
    if (row.lane.kind !== "span") return text;
    const parts = text.split(".");
    const last = lastOf(parts);
    return /^\d+$/.test(last) && parts.length > 1 ? `${parts.at(-2)}.${last}` : last;
}

/**
 * For init, forward, loss, backward, optimizer. They differ as colours of categories do (colors.js), and white text can be
 * read on each.
 */
export const PHASE_TINTS = ["#5f6670", "#0c74ac", "#533364", "#7d2b3c", "#716e2c"];

/**
 * @param {Scene} scene
 * @param {BarRow} row
 * @param {number} i
 */
function fillOf(scene, row, i) {
    if (row.lane.kind === "phase") return PHASE_TINTS[row.lane.text[i] % PHASE_TINTS.length];
    return i % 2 ? scene.theme.bar : scene.theme.barOther;
}

/** Draws bars narrower than a pixel as one, while they touch and have the same colour. */
class NarrowBars {
    /**
     * @param {CanvasRenderingContext2D} context
     * @param {BarRow} row
     */
    constructor(context, { top, height }) {
        this.context = context;
        this.top = top;
        this.height = height;
        this.from = 0;
        this.to = 0;
        this.fill = "";
    }

    /**
     * @param {number} from
     * @param {number} to
     * @param {string} fill
     */
    add(from, to, fill) {
        if (fill !== this.fill || from > this.to) {
            this.draw();
            this.from = from;
            this.fill = fill;
        }
        this.to = to;
    }

    draw() {
        this.context.fillStyle = this.fill;
        this.context.fillRect(LEFT + this.from, this.top + 1, this.to - this.from, this.height - 2);
        this.to = -1;
    }
}

/**
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {BarRow} row
 * @param {number} i
 * @param {number} left
 * @param {number} right
 */
function drawBar(plot, scene, row, i, left, right) {
    const { context } = plot;
    const { lane, top, height } = row;
    const from = Math.max(0, left);
    const to = Math.min(plot.width, right);
    context.fillStyle = fillOf(scene, row, i);
    const gap = right - left > 3 ? 1 : 0;
    context.fillRect(LEFT + from, top + 1, Math.max(0.5, to - from - gap), height - 2);
    if (lane.kind === "step" || to - from <= 18) return;
    const text = fitText(context, barText(row, intervalText(scene, row, i)), to - from - 8);
    context.fillStyle = lane.kind === "phase" ? "#ffffff" : scene.theme.barText;
    if (text) context.fillText(text, LEFT + from + 4, top + height / 2 + 0.5);
}

const BESIDE_STEP = 10; // pixels between the numbers of two steps

/**
 * Writes the numbers of steps: of each one, or of every second, fifth, tenth … where they would run into each other. Among
 * steps of unequal lengths some remain that would; these are left out, as is what would run out of the picture.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {BarRow} row
 */
function drawStepNumbers(plot, scene, row) {
    const { context } = plot;
    const { view, theme } = scene;
    const { lane, top, height } = row;
    const perX = plot.width / (view.x1 - view.x0);
    const first = firstEndingAfter(scene, row, view.x0);
    /** @param {number} i */
    const leftOf = (i) => (xOf(scene, row, lane.begin[i]) - view.x0) * perX;
    let last = first;
    while (last < lane.begin.length && leftOf(last) < plot.width) last++;
    const pitch = (Math.min(plot.width, leftOf(last - 1)) - Math.max(0, leftOf(first))) / Math.max(1, last - 1 - first);
    /** @param {string} prefix */
    const widest = (prefix) => context.measureText(`${prefix}${lane.text[last - 1]}`).width + BESIDE_STEP;
    const prefix = last - first < 2 || widest("step ") <= pitch ? "step " : "";
    const every = Math.max(1, decimalStep(widest(prefix), pitch));
    context.fillStyle = theme.barText;
    for (let i = first, free = 0; i < last; i++) {
        const left = Math.max(0, leftOf(i)) + 4;
        const text = `${prefix}${lane.text[i]}`;
        const right = left + context.measureText(text).width;
        if ((lane.text[i] % every !== 0 && last - first >= 2) || left < free || right > plot.width) continue;
        context.fillText(text, LEFT + left, top + height / 2 + 0.5);
        free = right;
    }
}

/**
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {BarRow} row
 */
function drawRowName(plot, scene, { lane, top, height }) {
    const { context } = plot;
    context.fillStyle = scene.theme.faint;
    context.textAlign = "right";
    const name = lane.kind === "span" ? (lane.name === "span 1" ? "spans" : "") : lane.name;
    context.fillText(name.replace("kernels", "stream"), LEFT - 7, top + height / 2 + 0.5);
    context.textAlign = "left";
}

/**
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {BarRow} row
 */
function drawRow(plot, scene, row) {
    const { view } = scene;
    const { lane } = row;
    const perX = plot.width / (view.x1 - view.x0);
    const narrow = new NarrowBars(plot.context, row);
    for (let i = firstEndingAfter(scene, row, view.x0); i < lane.begin.length;) {
        const left = (xOf(scene, row, lane.begin[i]) - view.x0) * perX;
        if (left >= plot.width) break;
        const right = (xOf(scene, row, lane.end[i]) - view.x0) * perX;
        if (right - left >= 1) drawBar(plot, scene, row, i++, left, right);
        else {
            const pixel = Math.floor(left);
            narrow.add(Math.max(0, pixel), pixel + 1, lane.kind === "phase" ? fillOf(scene, row, i) : scene.theme.bar);
            // Skips the bars that end inside the pixel that was just filled.
            i = Math.max(i + 1, firstEndingAfter(scene, row, view.x0 + (pixel + 1) / perX, i));
        }
    }
    narrow.draw();
    if (lane.kind === "step") drawStepNumbers(plot, scene, row);
    drawRowName(plot, scene, row);
}

/**
 * @param {Plot} plot
 * @param {Theme} theme
 * @param {number} x
 */
function drawTickLine({ context }, theme, x) {
    context.strokeStyle = theme.line;
    context.beginPath();
    context.moveTo(LEFT + Math.round(x) + 0.5, TICKS_HEIGHT - 5);
    context.lineTo(LEFT + Math.round(x) + 0.5, TICKS_HEIGHT - 1);
    context.stroke();
}

/**
 * Writes a text centred on x, or as near to it as the plot allows.
 * @param {Plot} plot
 * @param {Theme} theme
 * @param {number} x
 * @param {string} text
 */
function drawTickText(plot, theme, x, text) {
    const { context } = plot;
    context.fillStyle = theme.faint;
    context.fillText(text, LEFT + placeOfText(plot, x, context.measureText(text).width), 8);
}

/**
 * @param {Plot} plot
 * @param {Theme} theme
 * @param {number} x
 * @param {string} text
 */
function drawTick(plot, theme, x, text) {
    drawTickLine(plot, theme, x);
    drawTickText(plot, theme, x, text);
}

/**
 * Returns the left edge of a text that is centred on x, moved so that it fits into the plot.
 * @param {Plot} plot
 * @param {number} x
 * @param {number} width
 */
function placeOfText(plot, x, width) {
    return Math.min(plot.width - width, Math.max(0, x - width / 2));
}

/**
 * Names the pieces of the axis above their middles, each whose name or phase fits it. If none does, names some of them at
 * their beginnings.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {import("./axis.js").AxisPiece[]} pieces
 */
function drawPieces(plot, scene, pieces) {
    const { view, theme } = scene;
    const { context } = plot;
    /** @param {number} x */
    const inPlot = (x) => ((x - view.x0) / (view.x1 - view.x0)) * plot.width;
    /** @param {string} text */
    const widthOf = (text) => context.measureText(text).width;
    const seen = pieces
        .map((piece) => ({ ...piece, left: inPlot(piece.x), right: Math.min(plot.width, inPlot(piece.end)) }))
        .filter(({ left, right }) => left <= plot.width && right >= 0);
    let isNamed = false;
    for (const { text, name, left, right } of seen) {
        const from = Math.max(0, left);
        const fitting = [text, name].find((each) => each && widthOf(each) + BETWEEN_TICKS <= right - from);
        if (fitting) drawTickText(plot, theme, (from + right) / 2, fitting);
        if (fitting && left >= 0) drawTickLine(plot, theme, left);
        isNamed ||= fitting !== undefined;
    }
    if (!isNamed) drawSomePieces(plot, scene, seen);
}

/**
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {{left: number, text: string}[]} seen
 */
function drawSomePieces(plot, { theme }, seen) {
    let next = -Infinity;
    for (const { left: x, text } of seen) {
        const { width } = plot.context.measureText(text);
        const left = placeOfText(plot, x, width);
        if (x < -1 || left < next) continue;
        drawTick(plot, theme, x, text);
        next = left + width + BETWEEN_TICKS;
    }
}

/**
 * @param {Plot} plot
 * @param {Scene} scene
 */
function drawTicks(plot, scene) {
    const { view, axis, theme } = scene;
    if (axis.pieces) return drawPieces(plot, scene, axis.pieces);
    const step = Math.max(axis.kind === "event" ? 1 : 0, decimalStep(view.x1 - view.x0, plot.width / 96));
    for (let i = Math.ceil(view.x0 / step); i * step <= view.x1; i++) {
        const at = i * step;
        const text = axis.kind === "time" ? timeTick(at, step) : countText(at);
        drawTick(plot, theme, ((at - view.x0) / (view.x1 - view.x0)) * plot.width, text);
    }
}

/**
 * @param {Plot} plot
 * @param {Scene} scene
 */
export function drawBars(plot, scene) {
    plot.begin(scene.theme);
    drawTicks(plot, scene);
    for (const row of scene.barRows) drawRow(plot, scene, row);
}

/**
 * Returns the part of an interval in view, in CSS pixels; null if it is out of view, or its row is not shown.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {Lane} lane
 * @param {number} i
 */
export function barBox(plot, scene, lane, i) {
    const row = scene.barRows.find((each) => each.lane === lane);
    if (!row) return null;
    const perX = plot.width / (scene.view.x1 - scene.view.x0);
    const left = (xOf(scene, row, lane.begin[i]) - scene.view.x0) * perX;
    const right = Math.max(left + 1, (xOf(scene, row, lane.end[i]) - scene.view.x0) * perX);
    if (right < 0 || left > plot.width) return null;
    return { left: Math.max(0, left), right: Math.min(plot.width, right), top: row.top, bottom: row.top + row.height };
}

/**
 * Returns the row and interval at a point of the bars; null if there is none.
 * @param {Scene} scene
 * @param {number} x
 * @param {number} y
 */
export function barAt(scene, x, y) {
    const row = scene.barRows.find(({ top, height }) => y >= top && y < top + height);
    if (!row) return null;
    const i = firstEndingAfter(scene, row, x);
    if (i >= row.lane.begin.length || xOf(scene, row, row.lane.begin[i]) > x) return null;
    return barOf(scene, row, i);
}

/**
 * @param {Scene} scene
 * @param {BarRow} row
 * @param {number} i
 */
function barOf(scene, row, i) {
    const { lane } = row;
    return {
        row,
        i,
        x0: xOf(scene, row, lane.begin[i]),
        x1: xOf(scene, row, lane.end[i]),
        text: intervalText(scene, row, i),
    };
}

/**
 * Returns the selected bar; null if there is none, or its row is not shown.
 * @param {Scene} scene
 */
export function selectedBar(scene) {
    const { bar } = scene;
    const row = bar && scene.barRows.find(({ lane }) => lane === bar.lane);
    return row ? barOf(scene, row, bar.i) : null;
}

/**
 * Returns the bar that is `along` bars further right and `down` rows further down than the selected one, or the nearest
 * to that. In another row, it is the bar under the middle of the selected one. Without a selection, it is the bar in
 * the middle of the view. null if there are no bars.
 * @param {Scene} scene
 * @param {number} along
 * @param {number} down
 */
export function barBeside(scene, along, down) {
    const { barRows, view } = scene;
    if (barRows.length === 0) return null;
    const from = selectedBar(scene);
    /**
     * @param {number} number
     * @param {number} count
     */
    const clamp = (number, count) => Math.min(count - 1, Math.max(0, number));
    if (from && down === 0) return barOf(scene, from.row, clamp(from.i + along, from.row.lane.begin.length));
    const row = from ? barRows[clamp(barRows.indexOf(from.row) + down, barRows.length)] : barRows[0];
    if (row === from?.row) return from;
    const x = from ? (Math.max(from.x0, view.x0) + Math.min(from.x1, view.x1)) / 2 : (view.x0 + view.x1) / 2;
    return barOf(scene, row, clamp(firstEndingAfter(scene, row, x), row.lane.begin.length));
}
