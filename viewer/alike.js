/** Blocks that are alike: of one size, with labels that differ by the layer alone. `memtrace top` groups them, too. */

/** @typedef {{key: string, bytes: number, blocks: number[]}} AlikeGroup   bytes of one block */

const COLUMNS = ["category", "role", "op", "phase", "dtype", "shape", "place"];

/**
 * Returns by label the first label that differs from it by the layer alone: equal for labels that are alike.
 * @param {Run} run
 */
export function alikeLabels({ labels }) {
    const firsts = new Map();
    return Uint32Array.from(labels.category, (_, label) => {
        const key = COLUMNS.map((name) => labels[name][label]).join();
        if (!firsts.has(key)) firsts.set(key, label);
        return firsts.get(key);
    });
}

/**
 * Groups blocks that are alike, the group with most bytes first.
 * @param {Run} run
 * @param {Uint32Array} alike   of alikeLabels
 * @param {number[]} blocks   largest first
 * @returns {{key: string, bytes: number, blocks: number[]}[]} bytes of one block of each group
 */
export function groupAlikeBlocks(run, alike, blocks) {
    const groups = new Map();
    for (const block of blocks) {
        const size = run.blocks.size[block];
        const key = `${alike[run.blocks.label[block]]}.${size}`;
        const group = groups.get(key);
        if (group) group.blocks.push(block);
        else groups.set(key, { key, bytes: run.sizes.block[size], blocks: [block] });
    }
    /** @param {AlikeGroup} group */
    const total = ({ bytes, blocks: members }) => bytes * members.length;
    return [...groups.values()].sort((a, b) => total(b) - total(a) || b.bytes - a.bytes);
}
