/**
 * The live blocks at the pinned moment, summed by a word of their labels: role, category, module, op, phase or dtype. The
 * sums add up to what is allocated, or to what is live of the category that is shown alone.
 */
import { byId, make, setText, shortText } from "./dom.js";
import { exactBytes, plural, sizeText } from "./numbers.js";

export const GROUP_KEYS = ["role", "category", "module", "op", "phase", "dtype"];
const GROUP_ROWS = 20;

/** Returns the function that names the group of a label's row. */
function namesOf({ texts, categories }, labels, key) {
    if (key === "category") return (label) => categories[labels.category[label]];
    const column = labels[key === "module" ? "place" : key];
    return (label) => texts[column[label]];
}

/**
 * Returns the groups of the runs, largest first: [{ name, bytes: [of each run] }].
 * @param {Object} description
 * @param {import("./store.js").Run[]} runs
 * @param {number[][]} live   the blocks of each run
 * @param {string} key
 */
export function groupsOf(description, runs, live, key) {
    const groups = new Map();
    runs.forEach(({ labels, blocks, sizes }, number) => {
        const nameOf = namesOf(description, labels, key);
        for (const block of live[number]) {
            const name = nameOf(blocks.label[block]);
            if (!groups.has(name)) groups.set(name, { name, bytes: runs.map(() => 0) });
            groups.get(name).bytes[number] += sizes.block[blocks.size[block]];
        }
    });
    const most = ({ bytes }) => Math.max(...bytes);
    return [...groups.values()].sort((a, b) => most(b) - most(a) || (a.name < b.name ? -1 : 1));
}

function groupRow({ name, bytes }) {
    return make(
        "tr",
        {},
        make("th", { scope: "row" }, shortText(name || "(none)")),
        ...bytes.map((each) => make("td", { title: exactBytes(each), "data-bytes": String(each) }, sizeText(each))),
    );
}

/** Fills the list of keys, and shows the groups of another when it is chosen. */
export function makeGroupKeys(scene) {
    const select = byId("group-key");
    select.replaceChildren(...GROUP_KEYS.map((key) => make("option", { value: key }, key)));
    select.addEventListener("change", () => scene.set({ groupKey: select.value }));
}

export function showGroups(scene, live) {
    const groups = groupsOf(scene.description, scene.runs, live, scene.groupKey);
    const rest = groups.slice(GROUP_ROWS);
    const bytes = scene.runs.map((_, number) => rest.reduce((sum, group) => sum + group.bytes[number], 0));
    byId("group-key").value = scene.groupKey;
    byId("groups").replaceChildren(...groups.slice(0, GROUP_ROWS).map(groupRow));
    setText(
        byId("groups-rest"),
        rest.length > 0
            ? `and ${plural(rest.length, "smaller one")}, ${bytes.map(sizeText).join(" and ")} together`
            : "",
    );
}
