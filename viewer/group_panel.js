/**
 * The live blocks at the pinned moment, summed by a word of their labels: role, category, module, op, phase or dtype. The
 * sums add up to what is allocated, or to what is live of what was searched for. Each group can be hidden.
 *
 * @typedef {{name: string, bytes: number[]}} Group   bytes of each run
 */
import { byId, make, refill, setText, shortText } from "./dom.js";
import { GROUP_KEYS, wordOfLabels } from "./filter.js";
import { exactBytes, plural, sizeText } from "./numbers.js";

const GROUP_ROWS = 20;

/**
 * Returns the groups of the runs, largest first: [{ name, bytes: [of each run] }].
 * @param {Description} description
 * @param {Run[]} runs
 * @param {number[][]} live   the blocks of each run
 * @param {string} key
 */
export function groupsOf(description, runs, live, key) {
    const groups = new Map();
    runs.forEach(({ labels, blocks, sizes }, number) => {
        const nameOf = wordOfLabels(description, labels, key);
        for (const block of live[number]) {
            const name = nameOf(blocks.label[block]);
            if (!groups.has(name)) groups.set(name, { name, bytes: runs.map(() => 0) });
            groups.get(name).bytes[number] += sizes.block[blocks.size[block]];
        }
    });
    /** @param {Group} group */
    const most = ({ bytes }) => Math.max(...bytes);
    return [...groups.values()].sort((a, b) => most(b) - most(a) || (a.name < b.name ? -1 : 1));
}

/**
 * Makes the row of a group, with a button that hides its blocks, or shows them again.
 * @param {Scene} scene
 * @param {Group} group
 */
function groupRow(scene, { name, bytes }) {
    const word = `${scene.groupKey}:${name}`;
    const isHidden = scene.hidden.includes(word);
    const rest = scene.hidden.filter((each) => each !== word);
    return make(
        "tr",
        { class: isHidden ? "off" : undefined },
        make(
            "th",
            { scope: "row" },
            make(
                "button",
                {
                    type: "button",
                    class: "shown",
                    role: "switch",
                    "aria-checked": String(!isHidden),
                    "data-key": word,
                    title: isHidden ? "Show these blocks again" : "Hide these blocks in all charts",
                    onclick: () => scene.set({ hidden: isHidden ? rest : [...rest, word] }),
                },
                shortText(name || "(none)"),
            ),
        ),
        ...bytes.map((each) => make("td", { title: exactBytes(each), "data-bytes": String(each) }, sizeText(each))),
    );
}

/**
 * Fills the list of keys, and shows the groups of another when it is chosen.
 * @param {Scene} scene
 */
export function makeGroupKeys(scene) {
    const select = byId("group-key");
    select.replaceChildren(...GROUP_KEYS.map((key) => make("option", { value: key }, key)));
    select.addEventListener("change", () => scene.set({ groupKey: select.value }));
}

/**
 * @param {Scene} scene
 * @param {number[][]} live
 */
export function showGroups(scene, live) {
    const groups = groupsOf(scene.description, scene.runs, live, scene.groupKey);
    const rest = groups.slice(GROUP_ROWS);
    const bytes = scene.runs.map((_, number) => rest.reduce((sum, group) => sum + group.bytes[number], 0));
    byId("group-key").value = scene.groupKey;
    refill(
        byId("groups"),
        groups.slice(0, GROUP_ROWS).map((group) => groupRow(scene, group)),
    );
    setText(
        byId("groups-rest"),
        rest.length > 0
            ? `and ${plural(rest.length, "smaller one")}, ${bytes.map(sizeText).join(" and ")} together`
            : "",
    );
}
