/**
 * A run that is written event by event, in the tables of docs/page.md. Generators of test pages use it.
 *
 * Blocks get addresses from free lists by size, over segments that grow. So addresses are reused, and no address
 * belongs to two live blocks.
 */
const STEP_BEGIN = 0,
    STEP_END = 1,
    PHASE = 2,
    SPAN_BEGIN = 3,
    SPAN_END = 4,
    OOM = 5;
const SEGMENT_BYTES = 256 * 2 ** 20;

/** Texts with their positions, shared by the runs of a page. */
export class Texts {
    constructor() {
        this.list = [""];
        this.positions = new Map([["", 0]]);
    }

    position(text) {
        if (!this.positions.has(text)) {
            this.positions.set(text, this.list.length);
            this.list.push(text);
        }
        return this.positions.get(text);
    }
}

export class Recording {
    /** @param {() => number} tick nanoseconds until the next event */
    constructor(texts, categories, phases, tick) {
        Object.assign(this, { texts, categories, phases, tick });
        this.now = 0;
        this.times = [];
        this.sizes = { requested: [], block: [] };
        this.sizeRows = new Map();
        this.labels = {
            category: [0],
            role: [0],
            op: [0],
            dtype: [0],
            shape: [0],
            span: [0],
            place: [0],
            phase: [0],
            layer: [0],
        };
        this.labelRows = new Map();
        this.segments = { address: [], bytes: [], stream: [], mapped: [], life: [] };
        this.blocks = { alloc: [], life: [], segment: [], offset: [], size: [], label: [] };
        this.uses = { flags: [], reads: [], writes: [], first: [], last: [], idle_from: [], idle: [], source: [] };
        this.marks = { event: [], kind: [], value: [], span: [], label: [] };
        this.kernels = { start: [], duration: [], name: [], label: [], stream: [] };
        this.freeSlots = new Map();
        this.slots = [];
        this.fill = new Map(); // of segments: how far they are handed out
    }

    event() {
        this.now += this.tick();
        this.times.push(this.now);
        return this.times.length - 1;
    }

    mark(kind, value = 0, span = "", label = 0) {
        const event = this.event();
        const row = { event, kind, value, span: this.texts.position(span), label };
        for (const [name, column] of Object.entries(this.marks)) column.push(row[name]);
    }

    beginStep(number) {
        this.mark(STEP_BEGIN, number);
    }
    endStep(number) {
        this.mark(STEP_END, number);
    }
    phase(name) {
        this.mark(PHASE, this.phases.indexOf(name));
    }
    beginSpan(path) {
        this.mark(SPAN_BEGIN, 0, path);
    }
    endSpan(path) {
        this.mark(SPAN_END, 0, path);
    }
    outOfMemory(bytes, span, label) {
        this.mark(OOM, bytes, span, this.label(label));
    }

    /** Returns the row of a label { category, role, op, dtype, shape, span, phase, layer }. */
    label(label) {
        const key = JSON.stringify(label);
        const known = this.labelRows.get(key);
        if (known !== undefined) return known;
        const columns = this.labels;
        const row = columns.category.length;
        columns.category.push(this.categories.indexOf(label.category));
        for (const name of ["role", "op", "dtype", "shape", "span", "phase"])
            columns[name].push(this.texts.position(label[name]));
        columns.place.push(this.texts.position(label.span.replace(/\.\d+(?=\.|$)/, ".*")));
        columns.layer.push((label.layer ?? -1) + 1);
        this.labelRows.set(key, row);
        return row;
    }

    sizeRow(requested, block) {
        const key = requested * 4096 + (block - requested) / 512;
        if (!this.sizeRows.has(key)) {
            this.sizeRows.set(key, this.sizes.requested.length);
            this.sizes.requested.push(requested);
            this.sizes.block.push(block);
        }
        return this.sizeRows.get(key);
    }

    mapSegment(bytes) {
        const row = this.segments.bytes.length;
        const before = row === 0 ? 2 ** 40 : this.segments.address[row - 1] + this.segments.bytes[row - 1];
        this.segments.address.push(before + (row % 7 === 6 ? 2 ** 30 : 0));
        this.segments.bytes.push(bytes);
        this.segments.stream.push(0);
        this.segments.mapped.push(this.event());
        this.segments.life.push(0);
        return row;
    }

    /** Returns a place for a block: [segment, offset]. */
    takeSlot(bytes) {
        const free = this.freeSlots.get(bytes);
        if (free?.length) return free.pop();
        const pool = bytes >= SEGMENT_BYTES / 8 ? "large" : "small";
        let open = this.fill.get(pool);
        if (!open || open.used + bytes > this.segments.bytes[open.segment]) {
            open = { segment: this.mapSegment(Math.max(bytes, SEGMENT_BYTES)), used: 0 };
            this.fill.set(pool, open);
        }
        open.used += bytes;
        return [open.segment, open.used - bytes];
    }

    /** Allocates a block, and returns its row. */
    alloc(requested, label) {
        const block = Math.max(512, Math.ceil(requested / 512) * 512);
        const slot = this.takeSlot(block);
        const row = this.blocks.alloc.length;
        this.blocks.alloc.push(this.event());
        this.blocks.life.push(0);
        this.blocks.segment.push(slot[0]);
        this.blocks.offset.push(slot[1]);
        this.blocks.size.push(this.sizeRow(requested, block));
        this.blocks.label.push(this.label(label));
        this.slots.push(slot);
        return row;
    }

    free(row) {
        const event = this.event();
        const bytes = this.sizes.block[this.blocks.size[row]];
        this.blocks.life[row] = event - this.blocks.alloc[row];
        if (!this.freeSlots.has(bytes)) this.freeSlots.set(bytes, []);
        this.freeSlots.get(bytes).push(this.slots[row]);
    }

    kernel(name, duration, label) {
        const row = {
            start: this.now,
            duration,
            name: this.texts.position(name),
            label: label ? this.label(label) : 0,
            stream: 7,
        };
        for (const [column, values] of Object.entries(this.kernels)) values.push(row[column]);
    }

    /** Returns uses that follow from lifetimes: written at once, last read just before the end. */
    makeUses() {
        this.blocks.alloc.forEach((_, row) => {
            const life = this.blocks.life[row];
            const last = life > 2 ? life - 2 : 0;
            const use = {
                flags: row % 50 === 7 ? 3 : 1,
                reads: 1 + (row % 3),
                writes: 1,
                first: 0,
                last,
                idle_from: 0,
                idle: last,
                source: row % 40 === 9 ? 1 : 0,
            };
            for (const [column, values] of Object.entries(this.uses)) values.push(use[column]);
        });
    }

    /** Returns the live bytes over time, computed the slow way: [{ event, byCategory, allocated, requested }]. */
    peak() {
        let now = 0;
        let best = { bytes: 0, event: -1 };
        const change = new Float64Array(this.times.length);
        this.blocks.alloc.forEach((event, row) => {
            const bytes = this.sizes.block[this.blocks.size[row]];
            change[event] += bytes;
            if (this.blocks.life[row] > 0) change[event + this.blocks.life[row]] -= bytes;
        });
        change.forEach((bytes, event) => {
            now += bytes;
            if (now > best.bytes) best = { bytes: now, event };
        });
        return best;
    }

    /** Returns the run for encodeChunks. */
    finish(info) {
        const tables = {
            sizes: this.sizes,
            labels: this.labels,
            segments: this.segments,
            blocks: this.blocks,
            marks: this.marks,
        };
        if (this.kernels.start.length > 0) tables.kernels = this.kernels;
        tables.events = { time: this.times };
        if (this.uses.flags.length > 0) tables.uses = this.uses;
        const allocated = this.peak();
        return {
            info: {
                trace: "memtrace.db",
                id: 1,
                name: null,
                state: "done",
                started_at: "2026-11-21T06:17:24.280024Z",
                device: "sim:h200",
                capacity_bytes: 150754820096,
                first_event: 1,
                event_count: this.times.length,
                lost_events: 0,
                time_unit_ns: 1,
                settings: [],
                peaks: allocated.bytes > 0 ? { allocated } : {},
                ...info,
            },
            tables,
        };
    }
}
