/**
 * The stacked area of a run: allocated bytes by role or category, before a faint background that shows the phases; reserved
 * bytes as a line above, and a mark on the peak.
 */
import { eventOfBin, peakOfChange } from "./answers.js";
import { columnsOfView, rasterArea } from "./area_raster.js";
import { momentAt } from "./axis.js";
import { PHASE_TINTS } from "./bars.js";
import { channels, mixed } from "./colors.js";
import { drawGhost, ghostLabel, ghostLeft } from "./ghost.js";
import { wordOf } from "./inks.js";
import { intervalAt, lastAtMost } from "./marks.js";
import { binaryStep, sizeText, sizeTick } from "./numbers.js";
import { drawLabel, drawSizeAxis, LEFT, strokeOnAny } from "./plot.js";

/** The share of a phase's tint in the background of the area. */
const PHASE_SHARE = 0.1;

/**
 * Returns the pixel behind the stack of each column: the background with a little of the phase's tint, if there is one.
 * @param {Scene} scene
 * @param {number} number
 * @param {number} width
 */
export function phaseBackgrounds({ theme, axis, view, runs }, number, width) {
    const { phases } = runs[number].lanes;
    const plain = wordOf(theme.backgroundRgb);
    const tints = PHASE_TINTS.map((tint) => wordOf(mixed(channels(tint), theme.backgroundRgb, PHASE_SHARE)));
    return Uint32Array.from({ length: width }, (_, x) => {
        const moment = momentAt(axis, number, view.x0 + ((x + 0.5) / width) * (view.x1 - view.x0));
        const phase = intervalAt(phases, moment);
        return phase < 0 ? plain : tints[phases.text[phase] % tints.length];
    });
}

/**
 * Returns the highest reserved bytes of each column, up to the end of the run.
 * @param {Run} run
 * @param {number} number
 * @param {Axis} axis
 * @param {View} view
 * @param {number} width
 */
export function reservedByColumn(run, number, axis, view, width) {
    const { event, bytes } = run.reserved;
    const highest = new Float64Array(width);
    const xs = axis.xs[number];
    const at = lastAtMost(event, run.eventCount);
    let now = 0;
    let column = 0;
    for (let i = 0; i <= at; i++) {
        const x = ((xs[event[i]] - view.x0) / (view.x1 - view.x0)) * width;
        if (x >= width) break;
        while (column < Math.floor(x)) highest[column++] = Math.max(highest[column - 1], now);
        if (x >= 0) highest[column] = Math.max(highest[column], now, bytes[i]);
        now = bytes[i];
    }
    const end = Math.min(width, Math.ceil(((xs[run.eventCount] - view.x0) / (view.x1 - view.x0)) * width));
    while (column < end) {
        highest[column] = Math.max(highest[column], now);
        column++;
    }
    return highest.subarray(0, Math.max(0, end));
}

/**
 * @param {Plot} plot
 * @param {Theme} theme
 * @param {Float64Array} columns
 * @param {number} top
 * @param {number} most
 * @param {number} height
 */
function drawReserved(plot, theme, columns, top, most, height) {
    const { context } = plot;
    context.strokeStyle = theme.text;
    context.lineWidth = 1.25;
    context.setLineDash([4, 2]);
    context.beginPath();
    let open = false;
    columns.forEach((bytes, x) => {
        const y = top + height - (bytes / most) * height;
        if (open) context.lineTo(LEFT + x + 0.5, y);
        else context.moveTo(LEFT + x + 0.5, y);
        open = true;
    });
    context.stroke();
    context.setLineDash([]);
}

/**
 * Returns the left edge of a text beside a mark at x: to its right or, without room there, to its left.
 * @param {number} x
 * @param {number} width
 * @param {number} plotWidth
 */
export function besideMark(x, width, plotWidth) {
    const right = x + MARK_WIDTH;
    return right + width + 6 <= plotWidth ? right : Math.max(6, x - MARK_WIDTH - width);
}

/**
 * Returns the left edge of a text of 16 pixels' height: its own or, where another label stands, next to that label.
 * @param {number} left
 * @param {number} width
 * @param {number} y
 * @param {?{left: number, width: number, y: number}} label
 */
function nextToLabel(left, width, y, label) {
    if (!label || Math.abs(y - label.y) >= LABEL_HEIGHT) return left;
    if (left + width + LABEL_GAP < label.left || left > label.left + label.width + LABEL_GAP) return left;
    const before = label.left - LABEL_GAP - width;
    return before > LEFT ? before : label.left + label.width + LABEL_GAP;
}

/**
 * Returns where the peak is and where its label stands; null if the peak is not in view.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number} number
 * @param {number} top
 * @param {number} most
 * @param {number} height
 */
function placePeak(plot, scene, number, top, most, height) {
    const { context } = plot;
    const { theme, axis, view } = scene;
    const { event, bytes } = scene.shownPeak(number);
    if (event < 0) return null;
    const x = ((axis.xs[number][event] - view.x0) / (view.x1 - view.x0)) * plot.width;
    if (x < 0 || x > plot.width) return null;
    const tip = top + height - (bytes / most) * height;
    const y = Math.max(8, tip - 8);
    const text = `peak ${sizeText(bytes)}`;
    context.font = `600 12px ${theme.font}`;
    const { width } = context.measureText(text);
    const refused = scene.isFiltered ? null : ghostLabel(plot, scene, number, top, height);
    const left = nextToLabel(LEFT + besideMark(x, width, plot.width), width, y, refused);
    context.font = `11px ${theme.font}`;
    return { x, tip, left, width, y, text };
}

/**
 * Draws a mark on the peak, if it is in view: a triangle above it, and its size.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {?ReturnType<typeof placePeak>} peak
 */
function drawPeak({ context }, { theme }, peak) {
    if (!peak) return;
    context.fillStyle = theme.text;
    context.beginPath();
    context.moveTo(LEFT + peak.x, peak.tip - 1);
    context.lineTo(LEFT + peak.x - 5, peak.tip - 9);
    context.lineTo(LEFT + peak.x + 5, peak.tip - 9);
    context.fill();
    context.font = `600 12px ${theme.font}`;
    drawLabel(context, theme, peak.text, peak.left, peak.y, theme.text);
    context.font = `11px ${theme.font}`;
}

/**
 * True if a label would run into another one.
 * @param {{left: number, width: number, y: number}} label
 * @param {?{left: number, width: number, y: number}} other
 */
function meets(label, other) {
    return !!other && nextToLabel(label.left, label.width, label.y, other) !== label.left;
}

/**
 * Draws the capacity of the card.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number} top
 * @param {number} most
 * @param {number} height
 */
function drawCapacity(plot, scene, top, most, height) {
    const { context } = plot;
    const { theme, capacity } = scene;
    if (!scene.showsCapacity) return;
    const y = Math.round(top + height - (capacity / most) * height) + 0.5;
    context.strokeStyle = theme.alarm;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(LEFT, y);
    context.lineTo(LEFT + plot.width, y);
    context.stroke();
    context.font = `11px ${theme.font}`;
    const text = `room on ${scene.card || "the card"}: ${sizeText(capacity)}`;
    const { width } = context.measureText(text);
    const ghost = ghostLeft(plot, scene, 0);
    const left = LEFT + (ghost !== null && ghost < plot.width / 2 ? plot.width - width - 6 : 6);
    const others = [placePeak(plot, scene, 0, top, most, height), ghostLabel(plot, scene, 0, top, height)];
    const isTaken = others.some((other) => meets({ left, width, y: y - 9 }, other));
    context.font = `11px ${theme.font}`;
    drawLabel(context, theme, text, left, isTaken ? y + 10 : y - 9, theme.alarm);
}

/**
 * Draws the reserved bytes with the change that is chosen: over the events, or of a simulation its peak alone.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {Change} change
 * @param {number} number
 * @param {number} top
 * @param {number} most
 * @param {number} height
 */
function drawChange(plot, scene, change, number, top, most, height) {
    const { context } = plot;
    const { theme, axis, view } = scene;
    const { eventCount } = scene.runs[number];
    /** @param {number} bytes */
    const y = (bytes) => top + height - (bytes / most) * height;
    /** @param {number} event */
    const x = (event) => LEFT + ((axis.xs[number][event] - view.x0) / (view.x1 - view.x0)) * plot.width;
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, plot.width, plot.height);
    context.clip();
    context.beginPath();
    const { curve } = change;
    if (curve) {
        curve.reserved_bytes.forEach((bytes, i) => {
            context.lineTo(x(eventOfBin(curve, i, eventCount)), y(bytes));
            context.lineTo(x(eventOfBin(curve, i + 1, eventCount)), y(bytes));
        });
    } else {
        context.moveTo(LEFT, y(peakOfChange(change)));
        context.lineTo(LEFT + plot.width, y(peakOfChange(change)));
    }
    strokeOnAny(context, theme);
    context.restore();
}

/**
 * Returns the bytes at a height of an area's canvas.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number} y   pixels from the upper edge
 */
export function bytesAtHeight(plot, scene, y) {
    return ((plot.height - y) / (plot.height - ABOVE)) * scene.areaTop;
}

/**
 * Marks the moments at which the run was out of memory.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number} number
 * @param {number} top
 * @param {number} height
 */
function drawOom(plot, scene, number, top, height) {
    const { context } = plot;
    const { theme, axis, view, runs } = scene;
    for (const { event } of runs[number].lanes.ooms) {
        const x = ((axis.xs[number][event] - view.x0) / (view.x1 - view.x0)) * plot.width;
        if (x < 0 || x > plot.width) continue;
        context.fillStyle = theme.alarm;
        context.fillRect(LEFT + x - 1, top, 2, height);
        if (event === scene.refusals[number]?.event && !scene.isFiltered) continue; // its ghost says so
        context.font = `600 11px ${theme.font}`;
        const { width } = context.measureText(OOM_TEXT);
        const left = x > plot.width / 2 ? x - MARK_WIDTH - width : x + MARK_WIDTH;
        drawLabel(context, theme, OOM_TEXT, LEFT + left, top + height - 10, theme.alarm);
    }
}

const OOM_TEXT = "out of memory";
const LABEL_HEIGHT = 16; // pixels, as plot.js draws it
const LABEL_GAP = 10; // pixels between two labels
const MARK_WIDTH = 9; // pixels from the middle of a mark to its text
export const ABOVE = 16; // pixels above the highest value, for the mark on the peak

/**
 * Draws run `number` of the scene.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number} number
 * @returns {AreaColumns} its columns, for the pointer and the difference
 */
export function drawArea(plot, scene, number) {
    const { theme, axis, view, runs, colors, stack } = scene;
    const run = runs[number];
    plot.begin(theme);
    const height = plot.height - ABOVE;
    const most = scene.areaTop;
    const picture = plot.takePixels(height);
    const columns = columnsOfView(run, scene.shown(number), number, axis, view, picture.width);
    rasterArea(
        {
            width: picture.width,
            height: picture.height,
            colors,
            stack,
            theme,
            top: most,
            backgrounds: phaseBackgrounds(scene, number, picture.width),
        },
        columns,
        picture.pixels,
    );
    plot.putPixels(ABOVE, height);
    drawSizeAxis(plot, theme, ABOVE, plot.height, most, binaryStep(most, height / 34), sizeTick);
    if (!scene.isFiltered)
        drawReserved(plot, theme, reservedByColumn(run, number, axis, view, plot.width), ABOVE, most, height);
    drawCapacity(plot, scene, ABOVE, most, height);
    drawOom(plot, scene, number, ABOVE, height);
    if (!scene.isFiltered) drawGhost(plot, scene, number, ABOVE, height);
    if (scene.change && !scene.isFiltered) drawChange(plot, scene, scene.change, number, ABOVE, most, height);
    drawPeak(plot, scene, placePeak(plot, scene, number, ABOVE, most, height));
    return columns;
}
