/** A page of a job of six ranks, with curves of no runs. */
import { makeSyntheticPage } from "./synthetic.mjs";

/** Makes a rank as `memtrace timeline` writes it, with the curve of no run. */
export function makeRank(rank, peak, rest = {}) {
    return {
        rank,
        run: `rank${rank}`,
        alike: rank,
        host: "node<b>1</b>",
        state: "done",
        peak_bytes: peak,
        step: 1,
        phase: "backward",
        span: "model.layers.7",
        above_median_bytes: 0,
        excess: null,
        is_whole: true,
        length: 4000,
        bin: 1024,
        bytes: [0, peak / 2, peak, 0],
        ...rest,
    };
}

/** A job of six ranks: 5 is highest and shown, 0, 1 and 3 are alike, 2 is not on the page, and 4 has no trace. */
export function makeJob() {
    const page = makeSyntheticPage(500, ["small"]);
    const ranks = [
        makeRank(5, 4096, { above_median_bytes: 2048, excess: { category: "Loss", bytes: 1024 } }),
        makeRank(0, 2048, { alike: 1, state: "killed", host: "node<b>2</b>", length: 8000, bin: 2048 }),
        makeRank(1, 2048, { alike: 1 }),
        makeRank(3, 2048, { alike: 1 }),
        makeRank(2, 1024, { is_whole: false }),
    ];
    const others = Object.fromEntries([0, 1, 3].map((rank) => [rank, makeSyntheticPage(300 + 100 * rank, ["small"])]));
    return { ...page, job: { job: "train", place: "my traces", shown: 5, axis: "time", missing: [4], ranks }, others };
}
