/**
 * The address map: each block is a rectangle, from its allocation to its free, at its address in its segment.
 *
 * @typedef {{x0: number, x1: number, low: number, high: number}} Box   of the map: a range of the axis and one of addresses
 */
import { GRID_ROWS, gridPlace, makeGrid } from "./grid.js";
import { FADED, FIRST_INK, wordsOfInks } from "./inks.js";
import { CLASS_COUNT, rangeOfClass } from "./levels.js";
import { MapRaster } from "./map_raster.js";
import { strokeBlocks, strokeSegments } from "./map_strokes.js";
import { addressText, addressTicks, binaryStep } from "./numbers.js";
import { fitText, LEFT, Plot } from "./plot.js";

/**
 * Returns the box of a block on the plot, in CSS pixels. It may reach outside.
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number} number
 * @param {number} block
 */
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

/**
 * @param {Plot} plot
 * @param {Scene} scene
 * @param {number[]} large
 */
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
        const color = scene.colors[run.labels.color[label]];
        if (!color || written++ > 300) continue;
        const text = fitText(
            context,
            `${texts[run.labels.span[label]]} ${texts[run.labels.op[label]]}`.trim(),
            width - 8,
        );
        if (!text) continue;
        if (color.hatch) {
            context.fillStyle = color.css;
            context.fillRect(LEFT + left + 2, top + 2, context.measureText(text).width + 4, 10);
        }
        context.fillStyle = color.text;
        context.fillText(text, LEFT + left + 4, top + 7.5);
    }
}

/**
 * Draws the ticks of addresses. If the view is small, they are counted from one that is written above them.
 * @param {Plot} plot
 * @param {Scene} scene
 */
function drawAddressAxis(plot, scene) {
    const { context } = plot;
    const { view, theme } = scene;
    const step = binaryStep(view.high - view.low, plot.height / 40);
    const { base, text } = addressTicks(view.low, step);
    context.fillStyle = theme.faint;
    context.textAlign = "right";
    for (let address = Math.ceil(view.low / step) * step; address <= view.high; address += step) {
        const y = ((view.high - address) / (view.high - view.low)) * plot.height;
        context.fillText(text(address), LEFT - 7, Math.min(plot.height - 7, Math.max(base > 0 ? 21 : 7, y)));
    }
    if (base > 0) {
        context.font = `600 11px ${theme.font}`;
        context.fillText(addressText(base), LEFT - 7, 7);
    }
    context.textAlign = "left";
}

/**
 * Returns the number that all inks of a scene are below.
 * @param {Scene} scene
 */
export function inkCountOf(scene) {
    return FIRST_INK + scene.colors.length;
}

/**
 * @param {Scene} scene
 * @param {GridPlace} place
 */
function gridOf(scene, place) {
    const { axis, mapRun, runs } = scene;
    return scene.grid(place, () =>
        makeGrid(place, scene.levels(mapRun), runs[mapRun], axis, mapRun, scene.inks, inkCountOf(scene)),
    );
}

/**
 * Computes the slowest part of the picture of a whole run in advance.
 * @param {Scene} scene
 * @param {HTMLCanvasElement} canvas
 */
export function prepareMap(scene, canvas) {
    const plot = new Plot(canvas);
    plot.fit();
    gridOf(scene, gridPlace(scene.view, scene.axis, plot.width * plot.scale));
}

/**
 * A rectangle of the map: a range of the axis and a range of addresses.
 * @param {number} x
 * @param {number} address
 * @param {number} wide
 * @param {number} high
 */
function around(x, address, wide, high) {
    return { x0: x - wide / 2, x1: x + wide / 2, low: address - high / 2, high: address + high / 2 };
}

/**
 * Returns the block of an ink that covers most of a rectangle; -1 if there is none.
 * @param {Scene} scene
 * @param {Uint16Array} inks   by label
 * @param {number} ink
 * @param {Box} box
 */
export function blockIn(scene, inks, ink, { x0, x1, low, high }) {
    const number = scene.mapRun;
    const run = scene.runs[number];
    const { alloc, free, size, label } = run.blocks;
    const xs = scene.axis.xs[number];
    const levels = scene.levels(number);
    let best = -1;
    let bestCover = 0;
    for (let c = CLASS_COUNT - 1; c >= 0; c--) {
        const [first, end] = rangeOfClass(levels, run, scene.axis, number, c, x0, x1);
        for (let i = first; i < end; i++) {
            const block = levels.order[i];
            if (inks[label[block]] !== ink) continue;
            const bottom = run.blocks.low[block];
            const tall = Math.min(bottom + run.sizes.block[size[block]], high) - Math.max(bottom, low);
            const wide = Math.min(xs[free[block]], x1) - Math.max(xs[alloc[block]], x0);
            if (wide < 0 || tall <= 0) continue;
            const cover = Math.max(wide, (x1 - x0) * 1e-6) * tall;
            if (cover <= bestCover) continue;
            best = block;
            bestCover = cover;
        }
    }
    return best;
}

/** The address map on its canvas. */
export class AddressMap {
    /** @param {Plot} plot */
    constructor(plot) {
        this.plot = plot;
        this.raster = new MapRaster();
    }

    /** @param {Scene} scene */
    draw(scene) {
        const { plot, raster } = this;
        const { theme, axis, view, mapRun: number, inks } = scene;
        const run = scene.runs[number];
        plot.begin(theme);
        const { pixels, width, height } = plot.takePixels(plot.height);
        const levels = scene.levels(number);
        /** @param {GridPlace} place */
        const grid = (place) => gridOf(scene, place);
        const picture = { width, height, view, axis, run, number, levels, grid, inks, inkCount: inkCountOf(scene) };
        const large = raster.draw(picture);
        const words = wordsOfInks(scene.colors, theme);
        for (let at = 0; at < pixels.length; at++) pixels[at] = words[raster.inks[at]];
        strokeBlocks(picture, scene.colors, raster.inks, pixels, large);
        strokeSegments(picture, theme.segmentRgb, raster.inks, pixels);
        plot.putPixels(0, plot.height);
        writeNames(plot, scene, large);
        drawAddressAxis(plot, scene);
    }

    /**
     * Returns the ink at a point of the map, and the block that it stands for: the one of the ink that covers most of the
     * pixel there. -1: cached or unmapped memory.
     * @param {Scene} scene
     * @param {number} x
     * @param {number} address
     */
    at(scene, x, address) {
        const { raster } = this;
        const { view, inks } = scene;
        const [pixelX, pixelBytes] = [(view.x1 - view.x0) / raster.width, (view.high - view.low) / raster.height];
        const column = Math.min(raster.width - 1, Math.max(0, Math.floor((x - view.x0) / pixelX)));
        const row = Math.min(raster.height - 1, Math.max(0, Math.floor((view.high - address) / pixelBytes)));
        const ink = raster.inks[row * raster.width + column];
        if (ink < FADED) return { ink, block: -1 };
        const middle = /** @type {const} */ ([view.x0 + (column + 0.5) * pixelX, view.high - (row + 0.5) * pixelBytes]);
        const block = blockIn(scene, inks, ink, around(...middle, pixelX, pixelBytes));
        if (block >= 0 || !raster.place) return { ink, block };
        // Of the grid, a pixel shows what lies in cells around it.
        const [cellX, cellBytes] = [raster.place.unit, scene.runs[scene.mapRun].addressBytes / GRID_ROWS];
        const near = around(...middle, pixelX + 2 * cellX, pixelBytes + 2 * cellBytes);
        return { ink, block: blockIn(scene, inks, ink, near) };
    }
}
