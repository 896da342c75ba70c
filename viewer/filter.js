/**
 * The filter: which labels the charts and lists show. A role or category alone, what a search found, and without what is hidden.
 * A mask has 1 for each label that passes; null stands for one of which all pass.
 *
 * @typedef {?Uint8Array} Mask   by label
 */

/** The words of a label by which blocks are grouped and hidden. */
export const GROUP_KEYS = ["category", "role", "module", "op", "phase", "dtype"];

/**
 * Returns the function that names a word of a label.
 * @param {Description} description
 * @param {TableColumns} labels
 * @param {string} key
 * @returns {(label: number) => string}
 */
export function wordOfLabels({ texts, categories }, labels, key) {
    if (key === "category") return (label) => categories[labels.category[label]];
    const column = labels[key === "module" ? "place" : key];
    return (label) => texts[column[label]];
}

/**
 * Returns the mask of those that pass all of some masks.
 * @param {...Mask} masks
 */
export function joinMasks(...masks) {
    const given = masks.filter((mask) => mask !== null);
    if (given.length <= 1) return given[0] ?? null;
    return given[0].map((_, label) => Number(given.every((mask) => mask[label] === 1)));
}

/**
 * Returns the mask of one colour; null for a colour below 0.
 * @param {TableColumns} labels
 * @param {number} only
 */
export function colorMask({ color }, only) {
    return only < 0 ? null : Uint8Array.from(color, (each) => Number(each === only));
}

/**
 * Returns the mask of labels in a module, or in one below it: "model.layers.*"; null for "".
 * @param {Description} description
 * @param {TableColumns} labels
 * @param {string} within
 */
export function moduleMask({ texts }, { place, span }, within) {
    if (within === "") return null;
    /** @param {string} path */
    const isIn = (path) => path === within || path.startsWith(`${within}.`);
    return Uint8Array.from(place, (text, label) => Number(isIn(texts[text]) || isIn(texts[span[label]])));
}

/**
 * Returns the mask without labels of which a word is hidden: ["role:parameter", …].
 * @param {Description} description
 * @param {TableColumns} labels
 * @param {string[]} hidden
 */
export function hiddenMask(description, labels, hidden) {
    if (hidden.length === 0) return null;
    const words = GROUP_KEYS.map((key) => ({ key, wordOf: wordOfLabels(description, labels, key) }));
    const gone = new Set(hidden);
    return Uint8Array.from(labels.category, (_, label) =>
        Number(words.every(({ key, wordOf }) => !gone.has(`${key}:${wordOf(label)}`))),
    );
}

/** The words of a label that a search looks at. */
const SEARCHED = ["op", "span", "category", "role", "dtype", "shape", "phase"];

/**
 * Returns the texts that a query is in: 1 by text, and by category.
 * @param {Description} description
 * @param {string} query
 */
function textsWith({ texts, categories }, query) {
    const wanted = query.trim().toLowerCase();
    /** @param {string} text */
    const holds = (text) => Number(text.toLowerCase().includes(wanted));
    return { texts: Uint8Array.from(texts, holds), categories: Uint8Array.from(categories, holds) };
}

/**
 * Returns by label the first word that a query is in, as its position in SEARCHED + 1; 0: none. null: there is no query.
 * @param {Description} description
 * @param {Run} run
 * @param {string} query
 */
export function findLabels(description, { labels }, query) {
    if (query.trim() === "") return null;
    const holds = textsWith(description, query);
    return Uint8Array.from(labels.category, (category, label) => {
        if (label === 0) return 0;
        return (
            1 +
            SEARCHED.findIndex((name) =>
                name === "category" ? holds.categories[category] : holds.texts[labels[name][label]],
            )
        );
    });
}

/**
 * Returns the name of a word that was found.
 * @param {number} found
 */
export function foundKind(found) {
    return SEARCHED[found - 1];
}

/**
 * Returns the mask of what was found.
 * @param {Mask} found
 */
export function foundMask(found) {
    return found && found.map((word) => Number(word > 0));
}
