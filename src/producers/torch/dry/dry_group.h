/* A process group in which this rank is alone. Its collectives allocate what NCCL's allocate on this rank, and move no
 * data.
 *
 *   program ──▶ c10d::ProcessGroup ──▶ group ──▶ done: a future that holds the results at once
 *
 * Small tensors get the values they would have if every rank held this rank's values: a sum is a multiple of the value,
 * and gathered tensors are copies. NCCL's memory outside PyTorch's allocator is counted at the same times as on a card:
 * when a communicator begins, at its first collective, and at the first message with a peer. Integers that one rank
 * sends to others, such as the sizes of pickled objects, go by mail (dry_mail.h).
 *
 * Threads: any, as with c10d. */
#pragma once

#include "producers/torch/dry/dry_mail.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <set>
#include <vector>

namespace mt_dry
{

class group final : public c10d::Backend
{
  public:
    using tensors = std::vector<at::Tensor>;
    using work = c10::intrusive_ptr<c10d::Work>;

    /* `backend` is the program's choice: "nccl" or "gloo". */
    group(mailbox mail, int rank, int size, std::string backend);

    const std::string getBackendName() const override;

    /* Makes NCCL begin a communicator, unless it has one. */
    void begin();

    work broadcast(tensors &data, const c10d::BroadcastOptions &options) override;
    work allreduce(tensors &data, const c10d::AllreduceOptions &options) override;
    work allreduce_coalesced(tensors &data, const c10d::AllreduceCoalescedOptions &options) override;
    work reduce(tensors &data, const c10d::ReduceOptions &options) override;
    work allgather(std::vector<tensors> &outputs, tensors &inputs, const c10d::AllgatherOptions &options) override;
    work _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) override;
    work allgather_into_tensor_coalesced(tensors &outputs, tensors &inputs,
                                         const c10d::AllgatherOptions &options) override;
    work gather(std::vector<tensors> &outputs, tensors &inputs, const c10d::GatherOptions &options) override;
    work scatter(tensors &outputs, std::vector<tensors> &inputs, const c10d::ScatterOptions &options) override;
    work reduce_scatter(tensors &outputs, std::vector<tensors> &inputs,
                        const c10d::ReduceScatterOptions &options) override;
    work _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                              const c10d::ReduceScatterOptions &options) override;
    work reduce_scatter_tensor_coalesced(tensors &outputs, tensors &inputs,
                                         const c10d::ReduceScatterOptions &options) override;
    work alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_sizes,
                       std::vector<int64_t> &input_sizes, const c10d::AllToAllOptions &options) override;
    work alltoall(tensors &outputs, tensors &inputs, const c10d::AllToAllOptions &options) override;
    work send(tensors &data, int to, int tag) override;
    work recv(tensors &data, int from, int tag) override;
    work recvAnysource(tensors &data, int tag) override;
    work barrier(const c10d::BarrierOptions &options) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_for_all) override;

    bool supportsCoalescing() const; /* virtual since PyTorch 2.7 */
    void startCoalescing() override;
    work endCoalescing() override;
    void setSequenceNumberForGroup() override;
    uint64_t getSequenceNumberForGroup() override;

    /* No `override`, since some versions of PyTorch lack it. */
    virtual void setTimeout(std::chrono::milliseconds timeout);

  private:
    work finish(tensors results);
    work collect(tensors results);
    void connect(int peer);
    void connect_all();
    void reduce_values(const tensors &data, const c10d::ReduceOp &op) const;
    void give_chunk(const at::Tensor &output, const at::Tensor &input, const c10d::ReduceOp &op) const;

    mailbox mail_;
    std::string backend_;
    uint64_t sequence_ = 0;
    bool has_begun_ = false, has_rings_ = false; /* NCCL's memory for it is counted */
    std::set<int> peers_;                        /* likewise */
};

} // namespace mt_dry
