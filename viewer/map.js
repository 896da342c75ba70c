/** The address map: each block is a rectangle, from its allocation to its free, at its address in its segment. */
import { gridPlace, makeGrid } from "./grid.js";
import { CLASS_COUNT, rangeOfClass } from "./levels.js";
import { rasterMap } from "./map_raster.js";
import { binaryStep, sizeTick } from "./numbers.js";
import { fitText, LEFT } from "./plot.js";

/** Returns the colour and opacity of blocks by label. With an emphasis, the other blocks are faded. */
export function makePaint(run, colors, emphasis, theme) {
    const { category } = run.labels;
    const paint = new Float32Array(category.length * 4);
    const hatches = [];
    for (let label = 0; label < category.length; label++) {
        const faded = emphasis && !emphasis[label];
        const opacity = faded ? 0.16 : 1;
        const rgb = faded ? theme.fadedRgb : (colors[category[label]]?.rgb ?? [128, 128, 128]);
        paint.set([rgb[0] * opacity, rgb[1] * opacity, rgb[2] * opacity, opacity], label * 4);
        hatches.push(faded ? null : (colors[category[label]]?.hatch ?? null));
    }
    return { paint, hatches };
}

/** Returns the box of a block on the plot, in CSS pixels. It may reach outside. */
export function blockBox(plot, scene, number, block) {
    const { axis, view, runs } = scene;
    const { blocks, sizes } = runs[number];
    const xs = axis.xs[number];
    const perX = plot.width / (view.x1 - view.x0);
    const perByte = plot.height / (view.high - view.low);
    const bytes = sizes.block[blocks.size[block]];
    return {
        left: (xs[blocks.alloc[block]] - view.x0) * perX,
        right: (xs[blocks.free[block]] - view.x0) * perX,
        top: (view.high - blocks.low[block] - bytes) * perByte,
        bottom: (view.high - blocks.low[block]) * perByte,
    };
}

function writeNames(plot, scene, large) {
    const { context } = plot;
    const run = scene.runs[scene.mapRun];
    const { texts } = scene.description;
    let written = 0;
    context.font = `10px ${scene.theme.font}`;
    for (const block of large) {
        const box = blockBox(plot, scene, scene.mapRun, block);
        const left = Math.max(0, box.left);
        const width = Math.min(plot.width, box.right) - left;
        const top = Math.max(0, box.top);
        if (width < 44 || Math.min(plot.height, box.bottom) - top < 12) continue;
        const label = run.blocks.label[block];
        if (scene.emphasis && !scene.emphasis[label]) continue;
        const color = scene.colors[run.labels.category[label]];
        if (!color || written++ > 300) continue;
        const text = fitText(
            context,
            `${texts[run.labels.span[label]]} ${texts[run.labels.op[label]]}`.trim(),
            width - 8,
        );
        if (!text) continue;
        const [r, g, b] = color.rgb;
        const dark = 0.3 * r + 0.6 * g + 0.1 * b > 120;
        if (color.hatch) {
            context.fillStyle = color.css;
            context.fillRect(LEFT + left + 2, top + 2, context.measureText(text).width + 4, 10);
        }
        context.fillStyle = dark ? "#000000" : "#ffffff";
        context.fillText(text, LEFT + left + 4, top + 7.5);
    }
}

function outlineSegments(plot, scene) {
    const { context } = plot;
    const { axis, view, theme } = scene;
    const run = scene.runs[scene.mapRun];
    const xs = axis.xs[scene.mapRun];
    const { count, low, bytes, mapped, life } = run.segments;
    context.strokeStyle = theme.segment;
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 0; i < count; i++) {
        const high = (bytes[i] / (view.high - view.low)) * plot.height;
        if (high < 5) continue;
        const top = ((view.high - low[i] - bytes[i]) / (view.high - view.low)) * plot.height;
        if (top > plot.height || top + high < 0) continue;
        const x = (event) => ((xs[event] - view.x0) / (view.x1 - view.x0)) * plot.width;
        const left = Math.max(-2, x(mapped[i]));
        const right = Math.min(plot.width + 2, x(life[i] > 0 ? mapped[i] + life[i] : run.eventCount));
        if (right <= left) continue;
        // Leaves out sides outside of the margins, since clipping costs more than everything else.
        const [y0, y1] = [Math.round(top) + 0.5, Math.round(top) + 0.5 + Math.round(high)];
        const [x0, x1] = [
            Math.max(0, Math.round(left) + 0.5),
            Math.min(plot.width, Math.round(left) + 0.5 + right - left),
        ];
        context.moveTo(LEFT + x0, y0);
        context.lineTo(LEFT + x1, y0);
        context.moveTo(LEFT + x0, y1);
        context.lineTo(LEFT + x1, y1);
        if (left >= 0) {
            context.moveTo(LEFT + x0, y0);
            context.lineTo(LEFT + x0, y1);
        }
        if (right <= plot.width) {
            context.moveTo(LEFT + x1, y0);
            context.lineTo(LEFT + x1, y1);
        }
    }
    context.stroke();
}

function drawAddressAxis(plot, scene) {
    const { context } = plot;
    const { view, theme } = scene;
    const step = binaryStep(view.high - view.low, plot.height / 40);
    context.fillStyle = theme.faint;
    context.textAlign = "right";
    for (let address = Math.ceil(view.low / step) * step; address <= view.high; address += step) {
        const y = ((view.high - address) / (view.high - view.low)) * plot.height;
        context.fillText(sizeTick(address), LEFT - 7, Math.min(plot.height - 7, Math.max(7, y)));
    }
    context.textAlign = "left";
}

function gridOf(scene, place) {
    const { axis, mapRun, runs } = scene;
    return scene.grid(place, () =>
        makeGrid(place, scene.levels(mapRun), runs[mapRun], axis, mapRun, scene.paint().paint),
    );
}

/** Computes the slowest part of the picture of a whole run in advance. */
export function prepareMap(scene) {
    gridOf(scene, gridPlace(scene.view, scene.axis, 1));
}

export function drawMap(plot, scene) {
    const { theme, axis, view, mapRun } = scene;
    const run = scene.runs[mapRun];
    plot.begin(theme);
    const { pixels, width, height } = plot.takePixels(plot.height);
    const levels = scene.levels(mapRun);
    const { paint, hatches } = scene.paint();
    const grid = (place) => gridOf(scene, place);
    const picture = { width, height, view, axis, run, number: mapRun, levels, grid, paint, hatches, theme };
    const large = run.blocks.count > 0 || run.segments.count > 0 ? rasterMap(picture, pixels) : (pixels.fill(0), []);
    plot.putPixels(0, plot.height);
    outlineSegments(plot, scene);
    writeNames(plot, scene, large);
    drawAddressAxis(plot, scene);
}

/**
 * Returns the block at a point of the map, or else the block that covers most of the pixel around it; -1 if there is
 * none.
 */
export function blockAt(scene, x, address, pixelX, pixelBytes) {
    const number = scene.mapRun;
    const run = scene.runs[number];
    const { alloc, free, low, size } = run.blocks;
    const xs = scene.axis.xs[number];
    const levels = scene.levels(number);
    let best = -1;
    let bestCover = 0;
    for (let c = CLASS_COUNT - 1; c >= 0; c--) {
        const [first, end] = rangeOfClass(levels, run, scene.axis, number, c, x - pixelX / 2, x + pixelX / 2);
        for (let i = first; i < end; i++) {
            const block = levels.order[i];
            const bottom = low[block];
            const top = bottom + run.sizes.block[size[block]];
            if (top < address - pixelBytes / 2 || bottom > address + pixelBytes / 2) continue;
            const left = xs[alloc[block]];
            const right = xs[free[block]];
            if (address >= bottom && address < top && x >= left && x < right) return block;
            const wide = Math.min(right, x + pixelX / 2) - Math.max(left, x - pixelX / 2);
            const high = Math.min(top, address + pixelBytes / 2) - Math.max(bottom, address - pixelBytes / 2);
            if (wide < 0 || high <= 0) continue;
            const cover = Math.max(wide, pixelX * 1e-6) * high;
            if (cover <= bestCover) continue;
            best = block;
            bestCover = cover;
        }
    }
    return best;
}
