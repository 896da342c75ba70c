/** What covers most of each pixel of a row: covers are added as boxes, and summed up by ink. */
import { FADED, UNMAPPED } from "./inks.js";

/** The cover of a whole pixel. Integers keep the sums exact. */
export const ONE = 4096;
const LEAST = 0.5; // below the cover of anything

/** The edges of a row: lists of changes by pixel, and the sums so far by ink. Between two rows all are empty. */
export class RowSums {
    /**
     * @param {number} width
     * @param {number} inkCount
     */
    constructor(width, inkCount) {
        this.heads = new Int32Array(width + 2).fill(-1); // by pixel, its latest change; -1: none
        this.sums = new Int32Array(inkCount);
        /** @type {number[]} */
        this.present = []; // inks whose sum may be above 0
        this.count = 0;
        this.next = new Int32Array(256);
        this.change = new Int32Array(256);
        this.ink = new Uint16Array(256);
    }

    grow() {
        const { next, change, ink } = this;
        this.next = new Int32Array(2 * this.count);
        this.change = new Int32Array(2 * this.count);
        this.ink = new Uint16Array(2 * this.count);
        this.next.set(next);
        this.change.set(change);
        this.ink.set(ink);
    }

    /**
     * @param {number} pixel
     * @param {number} ink
     * @param {number} change
     */
    push(pixel, ink, change) {
        if (change === 0) return;
        if (this.count === this.next.length) this.grow();
        const at = this.count++;
        this.next[at] = this.heads[pixel];
        this.change[at] = change;
        this.ink[at] = ink;
        this.heads[pixel] = at;
    }

    /**
     * Adds a box of which `cover` of each pixel's height is in this row. Its sides need not be integers.
     * @param {number} left
     * @param {number} right
     * @param {number} ink
     * @param {number} cover
     */
    add(left, right, ink, cover) {
        const l = left | 0;
        const r = right | 0;
        if (l === r) {
            const part = Math.max(1, (cover * (right - left)) | 0);
            this.push(l, ink, part);
            this.push(l + 1, ink, -part);
            return;
        }
        const afterLeft = (cover * (left - l)) | 0; // the part that belongs to the next pixel
        const afterRight = (cover * (right - r)) | 0;
        this.push(l, ink, cover - afterLeft);
        this.push(l + 1, ink, afterLeft);
        this.push(r, ink, afterRight - cover);
        this.push(r + 1, ink, -afterRight);
    }

    /**
     * Makes the changes at a pixel. Returns the ink with the highest sum, the first one of equals; UNMAPPED if none has any.
     * @param {number} pixel
     */
    changeAt(pixel) {
        const { sums, present } = this;
        for (let at = this.heads[pixel]; at >= 0; at = this.next[at]) {
            const ink = this.ink[at];
            if (sums[ink] === 0 && !present.includes(ink)) present.push(ink);
            sums[ink] += this.change[at];
        }
        this.heads[pixel] = -1;
        let best = UNMAPPED;
        let most = 0;
        for (let i = 0; i < present.length; i++) {
            const ink = present[i];
            if (sums[ink] === 0) {
                present[i--] = present[present.length - 1];
                present.pop();
                continue;
            }
            const sum = ink === FADED ? LEAST : sums[ink];
            if (sum > most || (sum === most && ink < best)) {
                most = sum;
                best = ink;
            }
        }
        return best;
    }

    /**
     * Makes the rest of the changes, after which all sums are 0.
     * @param {number} width
     */
    end(width) {
        this.changeAt(width);
        this.changeAt(width + 1);
        this.count = 0;
    }
}
