/**
 * The live blocks at a moment as a tree of modules: model → layers.* → ffn.w1 → op. Alike layers are one node, unless each is asked for.
 *
 * @typedef {Object} ModuleNode
 * @property {string} name     what it adds to its parent's path: "layers.*"
 * @property {string} path     "model.layers.*"; of an op that of its module
 * @property {boolean} isOp
 * @property {number[]} bytes   of each run
 * @property {ModuleNode[]} children   largest first
 * @property {number} color   that has most of the bytes in the first run with any
 *
 * @typedef {Object} GrowingNode
 * @property {string} name
 * @property {string} path
 * @property {boolean} isOp
 * @property {number[]} bytes
 * @property {Map<number, number>} byColor   bytes
 * @property {Map<string, GrowingNode>} next   children
 */
import { opOrRoleText } from "./block_words.js";
import { lastOf } from "./marks.js";

/**
 * @param {string} name
 * @param {string} path
 * @param {boolean} isOp
 * @param {number} runs
 * @returns {GrowingNode}
 */
function makeNode(name, path, isOp, runs) {
    return { name, path, isOp, bytes: new Array(runs).fill(0), byColor: new Map(), next: new Map() };
}

/**
 * @param {GrowingNode} node
 * @param {string} name
 * @param {string} path
 * @param {boolean} isOp
 * @param {number} runs
 */
function childOf(node, name, path, isOp, runs) {
    const key = isOp ? `op ${name}` : name;
    const known = node.next.get(key);
    if (known) return known;
    const made = makeNode(name, path, isOp, runs);
    node.next.set(key, made);
    return made;
}

/**
 * Returns the nodes from the root to an op.
 * @param {GrowingNode} root
 * @param {string} module
 * @param {string} op
 * @param {number} runs
 */
function chainOf(root, module, op, runs) {
    const chain = [root];
    let path = "";
    for (const part of module.split(".")) {
        if (part === "") continue;
        path = path === "" ? part : `${path}.${part}`;
        chain.push(childOf(lastOf(chain), part, path, false, runs));
    }
    chain.push(childOf(lastOf(chain), op, path, true, runs));
    return chain;
}

/**
 * Makes a node of plain lists; a module with one module in it and nothing else is one node with that.
 * @param {GrowingNode} node
 * @param {boolean} first
 * @returns {ModuleNode}
 */
function finish(node, first) {
    /** @param {{bytes: number[]}} each */
    const most = (each) => Math.max(...each.bytes);
    let [name, path, next] = [node.name, node.path, node.next];
    for (;;) {
        const only = next.size === 1 ? [...next.values()][0] : null;
        if (first || !only || only.isOp) break;
        [name, path, next] = [`${name}.${only.name}`, only.path, only.next];
    }
    const color = [...node.byColor].reduce((best, each) => (each[1] > best[1] ? each : best), [-1, 0])[0];
    const children = [...next.values()].map((child) => finish(child, false)).sort((a, b) => most(b) - most(a));
    return { name, path, isOp: node.isOp, bytes: node.bytes, children, color };
}

/**
 * @param {Description} description
 * @param {Run[]} runs
 * @param {number[][]} live   the blocks of each run
 * @param {boolean} eachLayer   true: alike layers are nodes of their own
 * @returns {ModuleNode} the root, whose name and path are ""
 */
export function makeModuleTree(description, runs, live, eachLayer) {
    const { texts } = description;
    const root = makeNode("", "", false, runs.length);
    runs.forEach(({ labels, blocks, sizes }, number) => {
        const chains = new Map();
        for (const block of live[number]) {
            const label = blocks.label[block];
            const module = texts[(eachLayer ? labels.span : labels.place)[label]];
            const name = opOrRoleText(description, labels, label);
            const chain = chains.get(label) ?? chainOf(root, module, name, runs.length);
            chains.set(label, chain);
            const bytes = sizes.block[blocks.size[block]];
            const color = labels.color[label];
            for (const node of chain) {
                node.bytes[number] += bytes;
                node.byColor.set(color, (node.byColor.get(color) ?? 0) + bytes);
            }
        }
    });
    return finish(root, true);
}
