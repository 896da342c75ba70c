/**
 * The allocator at the pinned moment: a strip of the map's addresses with blocks, holes and unmapped memory, and in words how
 * much is free, and in how many pieces. A request that was refused then is drawn below the largest hole, to scale.
 */
import { BEFORE_ALL } from "./axis.js";
import { byId, setText } from "./dom.js";
import { holesAt } from "./holes.js";
import { CACHED, UNMAPPED, wordsOfInks } from "./inks.js";
import { inkCountOf } from "./map.js";
import { plural, sizeText } from "./numbers.js";
import { LEFT, Plot } from "./plot.js";
import { ONE, RowSums } from "./row_sums.js";
import { blockText } from "./where.js";

const BAR = 22; // pixels: the height of the strip; below it is the refused request
const LEAST_BOX = 0.3; // pixels: the width of a block that is smaller than that

/**
 * Returns the refusal at a moment: { bytes }; null if there is none.
 * @param {Run} run
 * @param {number} moment
 */
function refusalAt(run, moment) {
    return run.lanes.ooms.find(({ event }) => event === moment) ?? null;
}

/**
 * Returns "51.75 GiB in 12 segments; 805.41 MiB free in 40 gaps, the largest 20.00 MiB".
 * @param {import("./holes.js").Holes} held
 * @param {?Refusal} refused
 */
function holesText({ segments, reserved, holes }, refused) {
    const free = holes.reduce((sum, { bytes }) => sum + bytes, 0);
    const largest = holes.reduce((most, { bytes }) => Math.max(most, bytes), 0);
    const among = holes.length > 0 ? ` in ${plural(holes.length, "gap")}, the largest ${sizeText(largest)}` : "";
    const asked = refused ? `; ${sizeText(refused.bytes)} was refused` : "";
    return `${sizeText(reserved)} in ${plural(segments, "segment")}; ${sizeText(free)} free${among}${asked}`;
}

export class AllocatorStrip {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        this.plot = new Plot(byId("strip"));
        /** @type {unknown[]} */
        this.from = []; // what the strip shows
        this.held = holesAt(scene, scene.mapRun, BEFORE_ALL); // at the pinned moment
        const { canvas } = this.plot;
        canvas.addEventListener("click", (event) => scene.set({ selected: this.blockUnder(event), twins: null }));
        canvas.addEventListener("pointermove", (event) => this.tell(this.blockUnder(event)));
        canvas.addEventListener("pointerleave", () => this.tell(-1));
    }

    update() {
        const { scene, plot } = this;
        const moment = scene.moments[scene.mapRun];
        const width = plot.canvas.clientWidth;
        const { low, high } = scene.view;
        const from = [scene.mapRun, moment, scene.axis, scene.inks, scene.theme, low, high, width];
        if (from.every((each, i) => each === this.from[i])) return;
        if (from.slice(0, 3).some((each, i) => each !== this.from[i])) this.held = holesAt(scene, scene.mapRun, moment);
        this.from = from;
        const refused = refusalAt(scene.runs[scene.mapRun], moment);
        setText(byId("allocator-title"), `At ${scene.pinnedName}, by address: ${sizeText(low)} to ${sizeText(high)}`);
        setText(byId("allocator-text"), holesText(this.held, refused));
        this.draw(refused);
    }

    /** @param {?Refusal} refused */
    draw(refused) {
        const { scene, plot } = this;
        plot.fit();
        plot.begin(scene.theme);
        const { pixels, width, height } = plot.takePixels(BAR);
        const words = wordsOfInks(scene.colors, scene.theme);
        const row = this.paintRow(width);
        for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) pixels[y * width + x] = words[row[x]];
        plot.putPixels(0, BAR);
        if (refused) this.drawRefused(refused);
    }

    /**
     * Returns the ink of each pixel.
     * @param {number} width
     */
    paintRow(width) {
        const { scene } = this;
        const { blocks, sizes } = scene.runs[scene.mapRun];
        const sums = new RowSums(width, inkCountOf(scene));
        const row = new Uint16Array(width);
        for (const { low, end } of this.held.parts)
            row.fill(CACHED, Math.round(this.placeOf(low, width)), Math.round(this.placeOf(end, width)));
        for (const block of this.held.blocks) {
            const left = this.placeOf(blocks.low[block], width);
            const right = this.placeOf(blocks.low[block] + sizes.block[blocks.size[block]], width);
            if (right > 0 && left < width)
                sums.add(
                    left,
                    Math.min(width, Math.max(right, left + LEAST_BOX)),
                    scene.inks[blocks.label[block]],
                    ONE,
                );
        }
        let ink = UNMAPPED;
        for (let x = 0; x < width; x++) {
            if (sums.heads[x] >= 0) ink = sums.changeAt(x);
            if (ink !== UNMAPPED) row[x] = ink;
        }
        return row;
    }

    /**
     * Returns the pixel of an address; at an end of the strip for one outside.
     * @param {number} address
     * @param {number} width
     */
    placeOf(address, width) {
        const { low, high } = this.scene.view;
        return Math.min(1, Math.max(0, (address - low) / (high - low))) * width;
    }

    /**
     * Draws what was refused from the beginning of the largest hole on, or else from the end of all memory.
     * @param {Refusal} refusal
     */
    drawRefused({ bytes }) {
        const { scene, plot } = this;
        const { context, width } = plot;
        const { holes, parts } = this.held;
        const most = holes.reduce((best, hole) => Math.max(best, hole.bytes), 0);
        const largest = holes.find((hole) => hole.bytes === most);
        const from = largest?.low ?? parts.at(-1)?.end ?? 0;
        const left = this.placeOf(from, width);
        const right = this.placeOf(from + bytes, width);
        context.strokeStyle = scene.theme.alarm;
        context.lineWidth = 2;
        context.setLineDash([4, 3]);
        context.strokeRect(LEFT + left, BAR + 3, Math.max(3, right - left), 10);
        context.setLineDash([]);
    }

    /**
     * Returns the block under a pointer; -1 if there is none.
     * @param {MouseEvent} event
     */
    blockUnder({ clientX }) {
        const { scene, plot } = this;
        const { blocks, sizes } = scene.runs[scene.mapRun];
        const { low, high } = scene.view;
        const part = (clientX - plot.canvas.getBoundingClientRect().left - LEFT) / plot.width;
        if (part < 0 || part >= 1) return -1;
        const half = (high - low) / plot.width / 2;
        const address = low + part * (high - low);
        let best = -1;
        let most = 0;
        for (const block of this.held.blocks) {
            const begin = blocks.low[block];
            const cover =
                Math.min(address + half, begin + sizes.block[blocks.size[block]]) - Math.max(address - half, begin);
            if (cover <= most) continue;
            best = block;
            most = cover;
        }
        return best;
    }

    /**
     * Says what is under the pointer, in place of the sums.
     * @param {number} block
     */
    tell(block) {
        const { scene } = this;
        const run = scene.runs[scene.mapRun];
        const text =
            block < 0
                ? holesText(this.held, refusalAt(run, scene.moments[scene.mapRun]))
                : blockText(scene.description, run, block);
        setText(byId("allocator-text"), text);
    }
}
