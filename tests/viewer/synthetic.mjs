/**
 * Pages of synthetic runs: training steps of a transformer in miniature, as many as a number of allocations takes.
 *
 *   node synthetic.mjs OUT.html [ALLOCATIONS] [noise] [kernels] [diff] [oom] [hostile] [empty] [deep]
 */
import { pathToFileURL } from "node:url";
import { writePage } from "./encode.mjs";
import { Recording, Texts } from "./recording.mjs";

export const CATEGORIES = [
    "Param",
    "Gradient",
    "Opt State",
    "Optimizer",
    "Embed",
    "Norm",
    "Attn",
    "AttnScores",
    "AttnOut",
    "Softmax",
    "FFN",
    "einsum",
    "Block",
    "Loss",
    "Data",
    "Workspace",
];
export const PHASES = ["init", "forward", "loss", "backward", "optimizer"];
const MIB = 2 ** 20;

/** Returns a generator of numbers in [0, 1), repeatable by seed. */
function randomNumbers(seed) {
    let state = seed >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let t = Math.imul(state ^ (state >>> 15), 1 | state);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
}

/** The allocations of a layer in forward: [part, op, category, MiB, kept for backward]. */
const FORWARD = [
    ["ln1", "pow", "Norm", 10, true],
    ["ln1", "mean", "Norm", 0.004, false],
    ["ln1", "rsqrt", "Norm", 0.004, true],
    ["ln1", "mul", "Norm", 10, true],
    ["attn.q_proj", "einsum.matmul", "einsum", 10, true],
    ["attn.k_proj", "einsum.matmul", "einsum", 10, true],
    ["attn.v_proj", "einsum.matmul", "einsum", 10, true],
    ["attn", "rearrange", "Attn", 10, false],
    ["attn", "einsum.copy", "einsum", 10, false],
    ["attn", "einsum.matmul", "einsum", 32, false],
    ["attn", "scale", "AttnScores", 32, false],
    ["attn", "where", "AttnOut", 32, true],
    ["attn", "softmax.max", "Softmax", 0.125, false],
    ["attn", "softmax.sub", "Softmax", 32, false],
    ["attn", "softmax.exp", "Softmax", 32, true],
    ["attn", "softmax.sum", "Softmax", 0.125, true],
    ["attn", "softmax.div", "Softmax", 32, true],
    ["attn", "einsum.matmul", "einsum", 10, true],
    ["attn.output_proj", "einsum.matmul", "einsum", 10, false],
    ["", "add", "Block", 10, true],
    ["ln2", "pow", "Norm", 10, true],
    ["ln2", "mul", "Norm", 10, true],
    ["ffn.w1", "einsum.matmul", "einsum", 40, true],
    ["ffn", "sigmoid", "FFN", 40, true],
    ["ffn", "mul", "FFN", 40, true],
    ["ffn.w3", "einsum.matmul", "einsum", 40, true],
    ["ffn", "mul.gate", "FFN", 40, true],
    ["ffn.w2", "einsum.matmul", "einsum", 10, false],
    ["", "add", "Block", 10, true],
];
const PARAMETERS = [
    ["ln1", 0.01],
    ["attn.q_proj", 25],
    ["attn.k_proj", 25],
    ["attn.v_proj", 25],
    ["attn.output_proj", 25],
    ["ln2", 0.01],
    ["ffn.w1", 100],
    ["ffn.w2", 100],
    ["ffn.w3", 100],
];

/** A model in training. A step makes 29 + 29 + 9 + 18 allocations a layer, and a few more. */
class Training {
    constructor(recording, options) {
        this.recording = recording;
        this.options = options;
        this.parameters = [];
        this.gradients = [];
        this.states = [];
    }

    path(layer, part) {
        const name = this.options.spanName ?? ((path) => path);
        return name(`model.layers.${layer}${part ? `.${part}` : ""}`);
    }

    alloc(layer, part, op, category, mebibytes, phase, role) {
        const requested = Math.round(mebibytes * MIB * (this.options.scale ?? 1));
        const opName = this.options.opName ?? ((name) => name);
        this.label = {
            category,
            role,
            op: opName(op),
            dtype: "fp32",
            shape: `4,256,${Math.ceil(requested / 4096)}`,
            span: this.path(layer, part),
            phase,
            layer,
        };
        return this.recording.alloc(requested, this.label);
    }

    each(layers, visit) {
        for (const layer of layers) {
            const paths = Array.from({ length: 1 + (this.options.deeper ?? 0) }, (_, i) =>
                this.path(layer, Array(i).fill("in").join(".")),
            );
            for (const path of paths) this.recording.beginSpan(path);
            visit(layer);
            for (const path of paths.reverse()) this.recording.endSpan(path);
        }
    }

    layers() {
        return Array.from({ length: this.options.layers }, (_, i) => i);
    }

    init() {
        this.recording.phase("init");
        this.each(this.layers(), (layer) => {
            for (const [part, size] of PARAMETERS)
                this.parameters.push([
                    layer,
                    part,
                    size,
                    this.alloc(layer, part, "parameter", "Param", size, "init", "parameter"),
                ]);
        });
    }

    forward() {
        this.saved = [];
        this.recording.phase("forward");
        this.data = this.recording.alloc(8208, {
            category: "Data",
            role: "input",
            op: "tokens",
            dtype: "int64",
            shape: "4,257",
            span: "",
            phase: "forward",
        });
        this.each(this.layers(), (layer) => {
            const temporary = [];
            for (const [part, op, category, size, kept] of FORWARD) {
                if (part) this.recording.beginSpan(this.path(layer, part));
                const row = this.alloc(layer, part, op, category, size, "forward", kept ? "activation" : "temporary");
                if (this.options.kernels)
                    // Of some, nobody knows who launched them.
                    this.recording.kernel(
                        `void ${op.replace(".", "_")}_kernel<float>(float*, int)`,
                        900,
                        op === "add" ? null : this.label,
                    );
                (kept ? this.saved : temporary).push([layer, part, op, category, size, row]);
                if (temporary.length > 3) this.recording.free(temporary.shift().at(-1));
                if (part) this.recording.endSpan(this.path(layer, part));
            }
            for (const entry of temporary) this.recording.free(entry.at(-1));
        });
    }

    loss() {
        this.recording.phase("loss");
        const logits = this.recording.alloc(40 * MIB, {
            category: "Loss",
            role: "activation",
            op: "logsumexp",
            dtype: "fp32",
            shape: "4,256,10000",
            span: "model.loss",
            phase: "loss",
        });
        for (const row of this.gradients) this.recording.free(row);
        this.gradients = [];
        return logits;
    }

    backward(logits) {
        this.recording.phase("backward");
        this.recording.free(logits);
        this.each(this.layers().reverse(), (layer) => {
            while (this.saved.length > 0 && this.saved.at(-1)[0] === layer) {
                const [, part, op, category, size, row] = this.saved.pop();
                const gradient = this.alloc(layer, part, `${op}.backward`, category, size, "backward", "temporary");
                this.recording.free(row);
                this.recording.free(gradient);
            }
            for (const [, part, size] of this.parameters.filter(([owner]) => owner === layer)) {
                const product = this.alloc(layer, part, "einsum.matmul", "einsum", size, "backward", "temporary");
                this.gradients.push(this.alloc(layer, part, "clone", "Gradient", size, "backward", "gradient"));
                this.recording.free(product);
            }
        });
        this.recording.free(this.data);
    }

    optimizer() {
        this.recording.phase("optimizer");
        const first = this.states.length === 0;
        for (const [layer, part, size] of this.parameters) {
            if (first)
                for (const op of ["exp_avg", "exp_avg_sq"])
                    this.states.push(this.alloc(layer, part, op, "Opt State", size, "optimizer", "optimizer state"));
            const denominator = this.alloc(layer, part, "sqrt", "Optimizer", size, "optimizer", "temporary");
            const update = this.alloc(layer, part, "add", "Optimizer", size, "optimizer", "temporary");
            this.recording.free(denominator);
            this.recording.free(update);
        }
    }

    step(number) {
        this.recording.beginStep(number);
        this.forward();
        if (this.options.oomAfterForward) return;
        this.backward(this.loss());
        this.optimizer();
        this.recording.endStep(number);
    }
}

/** Returns a run of about `allocations`, with names in `texts`. */
export function makeRun(texts, options) {
    const random = randomNumbers(options.seed ?? 1);
    let count = 0;
    const tick = options.noise ? () => 300 + Math.floor(random() * random() * 4000) : () => (count++ % 3 ? 800 : 2600);
    const recording = new Recording(texts, CATEGORIES, PHASES, tick);
    const training = new Training(recording, { layers: 32, ...options });
    training.init();
    let steps = 0;
    for (; steps === 0 || recording.blocks.alloc.length < options.allocations; steps++) training.step(steps);
    if (options.oomAfterForward)
        recording.outOfMemory(134217728, "model.layers.31.attn", {
            category: "Softmax",
            role: "activation",
            op: "softmax.div",
            dtype: "fp32",
            shape: "4,32,512,512",
            span: "model.layers.31.attn",
            phase: "forward",
            layer: 31,
        });
    if (!options.noUses) recording.makeUses();
    const settings = [
        ["model", "synthetic"],
        ["batch", "4"],
        ["seq", "256"],
        ["mode", "fwd_bwd"],
        ["autocast", options.name === "autocast" ? "bf16" : "off"],
        ["steps", String(steps)],
    ];
    return recording.finish({
        name: options.name ?? null,
        id: options.id ?? 1,
        settings,
        state: options.oomAfterForward ? "oom" : "done",
    });
}

/** Returns a run without events. */
export function makeEmptyRun(texts) {
    return new Recording(texts, CATEGORIES, PHASES, () => 1).finish({ name: "empty" });
}

export function makePage(runs, texts) {
    return { texts: texts.list, categories: CATEGORIES, phases: PHASES, runs };
}

const HOSTILE = `<script>document.title='taken'</script>"'><img src=x onerror=alert(1)>`;

/** Returns the page that the arguments describe. */
export function makeSyntheticPage(allocations, words = []) {
    const texts = new Texts();
    const has = (word) => words.includes(word);
    if (has("empty")) return makePage([makeEmptyRun(texts)], texts);
    const options = {
        allocations,
        noise: has("noise"),
        kernels: has("kernels"),
        oomAfterForward: has("oom"),
        deeper: has("deep") ? 6 : 0,
        layers: has("small") ? 4 : 32,
        name: has("hostile") ? HOSTILE : "baseline",
    };
    if (has("hostile")) {
        options.spanName = (path) => `${path}${HOSTILE}`;
        options.opName = (op) => (op === "einsum.matmul" ? "x".repeat(10000) : `${op}&amp;<b>`);
    }
    const runs = [makeRun(texts, options)];
    if (has("diff")) runs.push(makeRun(texts, { ...options, id: 2, name: "autocast", scale: 0.75, seed: 2 }));
    return makePage(runs, texts);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
    const [out, allocations = "10000", ...words] = process.argv.slice(2);
    writePage(out, makeSyntheticPage(Number(allocations), words));
}
