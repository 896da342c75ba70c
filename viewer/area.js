/** The stacked area of a run: allocated bytes by category, reserved bytes as a line above, and a mark on the peak. */
import { columnsOfView, rasterArea } from "./area_raster.js";
import { lastAtMost } from "./marks.js";
import { binaryStep, sizeText, sizeTick } from "./numbers.js";
import { drawLabel, drawSizeAxis, LEFT } from "./plot.js";

/** Returns the highest reserved bytes of each column, up to the end of the run. */
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

/** Returns the left edge of a text beside a mark at x: to its right or, without room there, to its left. */
export function besideMark(x, width, plotWidth) {
    const right = x + MARK_WIDTH;
    return right + width + 6 <= plotWidth ? right : Math.max(6, x - MARK_WIDTH - width);
}

/** Draws a mark on the peak, if it is in view: a triangle above it, and its size. */
function drawPeak(plot, scene, number, top, most, height) {
    const { context } = plot;
    const { theme, axis, view } = scene;
    const { event, bytes } = scene.shownPeak(number);
    if (event < 0) return;
    const x = ((axis.xs[number][event] - view.x0) / (view.x1 - view.x0)) * plot.width;
    if (x < 0 || x > plot.width) return;
    const y = top + height - (bytes / most) * height;
    context.fillStyle = theme.text;
    context.beginPath();
    context.moveTo(LEFT + x, y - 1);
    context.lineTo(LEFT + x - 5, y - 9);
    context.lineTo(LEFT + x + 5, y - 9);
    context.fill();
    const text = `peak ${sizeText(bytes)}`;
    context.font = `600 12px ${theme.font}`;
    const left = LEFT + besideMark(x, context.measureText(text).width, plot.width);
    drawLabel(context, theme, text, left, Math.max(8, y - 8), theme.text);
    context.font = `11px ${theme.font}`;
}

/** Marks the moments at which the run was out of memory. */
function drawOom(plot, scene, number, top, height) {
    const { context } = plot;
    const { theme, axis, view, runs } = scene;
    for (const { event } of runs[number].lanes.ooms) {
        const x = ((axis.xs[number][event] - view.x0) / (view.x1 - view.x0)) * plot.width;
        if (x < 0 || x > plot.width) continue;
        context.fillStyle = theme.alarm;
        context.fillRect(LEFT + x - 1, top, 2, height);
        context.font = `600 11px ${theme.font}`;
        const { width } = context.measureText(OOM_TEXT);
        const left = x > plot.width / 2 ? x - MARK_WIDTH - width : x + MARK_WIDTH;
        drawLabel(context, theme, OOM_TEXT, LEFT + left, top + height - 10, theme.alarm);
    }
}

const OOM_TEXT = "out of memory";
const MARK_WIDTH = 9; // pixels from the middle of a mark to its text
const ABOVE = 16; // pixels above the highest value, for the mark on the peak

/**
 * Draws run `number` of the scene.
 * @returns {Object} its columns, for the pointer and the difference
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
        { width: picture.width, height: picture.height, colors, stack, theme, top: most },
        columns,
        picture.pixels,
    );
    plot.putPixels(ABOVE, height);
    drawSizeAxis(plot, theme, ABOVE, plot.height, most, binaryStep(most, height / 34), sizeTick);
    if (!scene.isFiltered)
        drawReserved(plot, theme, reservedByColumn(run, number, axis, view, plot.width), ABOVE, most, height);
    drawOom(plot, scene, number, ABOVE, height);
    drawPeak(plot, scene, number, ABOVE, most, height);
    columns.scale = picture.scale;
    return columns;
}
