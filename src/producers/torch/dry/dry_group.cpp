/* Collectives that move no data, and the memory that NCCL's collectives allocate from PyTorch's allocator. */
#include "producers/torch/dry/dry_group.h"

#include "producers/torch/dry/dry_library.h"
#include "producers/torch/dry/dry_values.h"
#include "producers/torch/memtrace_torch.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

namespace mt_dry
{

using at::Tensor;
using c10d::ReduceOp;
using future = c10::ivalue::Future;

namespace
{

/* Work that is done as soon as it begins. It holds the results as long as NCCL's work does. */
class done final : public c10d::Work
{
  public:
    explicit done(std::vector<Tensor> results) : results_(std::move(results))
    {
    }
    bool isCompleted() override
    {
        return true;
    }
    bool isSuccess() const override
    {
        return true;
    }
    bool wait(std::chrono::milliseconds) override
    {
        return true;
    }
    void synchronize() override
    {
    }
    void blockCurrentStream() /* virtual since PyTorch 2.8 */
    {
    }
    std::vector<Tensor> result() override
    {
        return results_;
    }
    c10::intrusive_ptr<future> getFuture() override
    {
        auto made = c10::make_intrusive<future>(c10::ListType::create(c10::TensorType::get()), cards());
        made->markCompleted(at::IValue(results_));
        return made;
    }

  private:
    std::vector<c10::Device> cards() const
    {
        for (const Tensor &tensor : results_)
            if (is_on_card(tensor))
                return {tensor.device()};
        return {};
    }

    std::vector<Tensor> results_;
};

bool are_of_one_size(const std::vector<Tensor> &list)
{
    for (const Tensor &tensor : list)
        if (tensor.sizes() != list[0].sizes())
            return false;
    return true;
}

/* Allocates the flat tensor through which NCCL gathers a list of tensors of one size; none for tensors on the host. */
Tensor flat_for(const std::vector<Tensor> &list)
{
    if (list.empty() || !is_on_card(list[0]) || !are_of_one_size(list))
        return {};
    std::vector<int64_t> sizes = list[0].sizes().vec();
    sizes.insert(sizes.begin(), static_cast<int64_t>(list.size()));
    return at::empty(sizes, list[0].options());
}

/* Returns part `index` of `count` equal parts of a contiguous tensor's values, flat. */
Tensor part_of_values(const Tensor &tensor, int64_t index, int64_t count)
{
    const int64_t elements = tensor.numel() / count;
    return values_of(tensor).view(-1).narrow(0, index * elements, elements);
}

/* Marks the output of a collective unknown if its input is unknown. Their shapes may differ. */
void take_knowledge(const Tensor &to, const Tensor &from)
{
    if (is_on_card(to) && !is_known(from))
        mark(to, false);
}

/* Copies a tensor into each of `count` parts of another, as if every rank had sent it. */
void fill_with(const Tensor &output, const Tensor &input, int64_t count)
{
    if (!has_values(output) || !has_values(input) || output.numel() == 0)
        return;
    const Tensor values = values_of(input).view(-1);
    for (int64_t i = 0; i < count; i++)
        part_of_values(output, i, count).copy_(values);
    take_knowledge(output, input);
}

} // namespace

group::group(mailbox mail, int rank, int size, std::string backend)
    : Backend(rank, size), mail_(std::move(mail)), backend_(std::move(backend))
{
}

const std::string group::getBackendName() const
{
    return backend_;
}

group::work group::finish(tensors results)
{
    sequence_++;
    return c10::make_intrusive<done>(std::move(results));
}

void group::begin()
{
    if (backend_ != "nccl" || std::exchange(has_begun_, true))
        return;
    memtrace_torch_communicate(current_device(), MEMTRACE_TORCH_COMMUNICATOR, size_);
}

/* Ends a collective for which NCCL connects its rings. */
group::work group::collect(tensors results)
{
    begin();
    if (backend_ == "nccl" && !std::exchange(has_rings_, true))
        memtrace_torch_communicate(current_device(), MEMTRACE_TORCH_RING, size_);
    return finish(std::move(results));
}

/* Makes NCCL connect with a rank that a message goes to or comes from. */
void group::connect(int peer)
{
    begin();
    if (backend_ == "nccl" && peer != rank_ && peers_.insert(peer).second)
        memtrace_torch_communicate(current_device(), MEMTRACE_TORCH_PEER, size_);
}

void group::connect_all()
{
    for (int peer = 0; peer < size_; peer++)
        connect(peer);
}

/* Gives sums and products of small tensors the value they have if all ranks hold this rank's values. */
void group::reduce_values(const tensors &data, const ReduceOp &op) const
{
    for (const Tensor &tensor : data)
        if (has_values(tensor) && op == ReduceOp::SUM)
            values_of(tensor).mul_(size_);
}

/* Gives a rank its part of a reduced tensor. */
void group::give_chunk(const Tensor &output, const Tensor &input, const ReduceOp &op) const
{
    if (!has_values(output) || !has_values(input))
        return;
    values_of(output).view(-1).copy_(part_of_values(input, rank_, size_));
    take_knowledge(output, input);
    reduce_values({output}, op);
}

group::work group::broadcast(tensors &data, const c10d::BroadcastOptions &options)
{
    const int root = static_cast<int>(options.rootRank);
    for (const Tensor &tensor : data) {
        if (rank_ == root)
            mail_.send(tensor, mailbox::EVERY_RANK);
        else
            mail_.receive(tensor, root, mailbox::EVERY_RANK);
    }
    return collect(data);
}

group::work group::allreduce(tensors &data, const c10d::AllreduceOptions &options)
{
    reduce_values(data, options.reduceOp);
    return collect(data);
}

group::work group::allreduce_coalesced(tensors &data, const c10d::AllreduceCoalescedOptions &options)
{
    reduce_values(data, options.reduceOp);
    return collect(data);
}

group::work group::reduce(tensors &data, const c10d::ReduceOptions &options)
{
    if (rank_ == options.rootRank)
        reduce_values(data, options.reduceOp);
    return collect(data);
}

group::work group::allgather(std::vector<tensors> &outputs, tensors &inputs, const c10d::AllgatherOptions &)
{
    const Tensor flat = flat_for(outputs[0]);
    for (const Tensor &output : outputs[0])
        if (output.sizes() == inputs[0].sizes())
            fill_with(output, inputs[0], 1);
    return collect(outputs[0]);
}

group::work group::_allgather_base(Tensor &output, Tensor &input, const c10d::AllgatherOptions &)
{
    fill_with(output, input, size_);
    return collect({output});
}

group::work group::allgather_into_tensor_coalesced(tensors &outputs, tensors &inputs, const c10d::AllgatherOptions &)
{
    for (size_t i = 0; i < outputs.size(); i++)
        fill_with(outputs[i], inputs[i], size_);
    return collect(outputs);
}

group::work group::gather(std::vector<tensors> &outputs, tensors &inputs, const c10d::GatherOptions &options)
{
    if (rank_ != options.rootRank) {
        connect(static_cast<int>(options.rootRank));
        return finish({});
    }
    connect_all();
    for (const Tensor &output : outputs[0])
        fill_with(output, inputs[0], 1);
    return finish(outputs[0]);
}

group::work group::scatter(tensors &outputs, std::vector<tensors> &inputs, const c10d::ScatterOptions &options)
{
    const int root = static_cast<int>(options.rootRank);
    if (rank_ != root) {
        connect(root);
        mail_.receive(outputs[0], root, rank_);
        return finish(outputs);
    }
    connect_all();
    for (int to = 0; to < size_; to++)
        if (to != rank_)
            mail_.send(inputs[0][to], to);
    fill_with(outputs[0], inputs[0][rank_], 1);
    return finish(outputs);
}

group::work group::reduce_scatter(tensors &outputs, std::vector<tensors> &inputs,
                                  const c10d::ReduceScatterOptions &options)
{
    const Tensor flat = flat_for(inputs[0]);
    fill_with(outputs[0], inputs[0][rank_], 1);
    reduce_values({outputs[0]}, options.reduceOp);
    return collect(outputs);
}

group::work group::_reduce_scatter_base(Tensor &output, Tensor &input, const c10d::ReduceScatterOptions &options)
{
    give_chunk(output, input, options.reduceOp);
    return collect({output});
}

group::work group::reduce_scatter_tensor_coalesced(tensors &outputs, tensors &inputs,
                                                   const c10d::ReduceScatterOptions &options)
{
    for (size_t i = 0; i < outputs.size(); i++)
        give_chunk(outputs[i], inputs[i], options.reduceOp);
    return collect(outputs);
}

/* Assumes that each rank sends to this one what this rank sends to itself. */
group::work group::alltoall_base(Tensor &output, Tensor &input, std::vector<int64_t> &output_sizes,
                                 std::vector<int64_t> &input_sizes, const c10d::AllToAllOptions &)
{
    connect_all();
    const bool is_even = output_sizes.empty() && input_sizes.empty();
    if (is_even && has_values(output) && has_values(input) && output.numel() > 0) {
        const Tensor own = part_of_values(input, rank_, size_);
        for (int from = 0; from < size_; from++)
            part_of_values(output, from, size_).copy_(own);
        take_knowledge(output, input);
    }
    return finish({output});
}

group::work group::alltoall(tensors &outputs, tensors &inputs, const c10d::AllToAllOptions &)
{
    connect_all();
    for (const Tensor &output : outputs)
        if (output.sizes() == inputs[rank_].sizes())
            fill_with(output, inputs[rank_], 1);
    return finish(outputs);
}

group::work group::send(tensors &data, int to, int)
{
    connect(to);
    for (const Tensor &tensor : data)
        mail_.send(tensor, to);
    return finish(data);
}

group::work group::recv(tensors &data, int from, int)
{
    connect(from);
    for (const Tensor &tensor : data)
        mail_.receive(tensor, from, rank_);
    return finish(data);
}

group::work group::recvAnysource(tensors &data, int)
{
    return finish(data);
}

/* NCCL reduces one number for a barrier. The work holds it. */
group::work group::barrier(const c10d::BarrierOptions &)
{
    if (backend_ != "nccl")
        return finish({});
    const c10::Device device(c10::DeviceType::CUDA, current_device());
    return collect({at::zeros({1}, at::TensorOptions().device(device).dtype(at::kFloat))});
}

void group::monitoredBarrier(const c10d::BarrierOptions &, bool)
{
}

bool group::supportsCoalescing() const
{
    return backend_ == "nccl";
}

void group::startCoalescing()
{
}

group::work group::endCoalescing()
{
    return finish({});
}

void group::setSequenceNumberForGroup()
{
}

uint64_t group::getSequenceNumberForGroup()
{
    return sequence_;
}

void group::setTimeout(std::chrono::milliseconds)
{
}

namespace
{

/* DDP's timer on a card, where nothing takes time. */
class card_timer final : public c10d::Timer
{
  public:
    explicit card_timer(c10::Device)
    {
    }
    std::optional<int64_t> measureDifference(Event, Event) override
    {
        return std::nullopt;
    }
};

/* Returns the type that represents a backend in a process group. */
c10d::ProcessGroup::BackendType type_of(const std::string &backend)
{
    return backend == "nccl" ? c10d::ProcessGroup::NCCL : c10d::ProcessGroup::GLOO;
}

} // namespace

} // namespace mt_dry

namespace c10d
{

C10_REGISTER_TYPED_CLASS_WITH_PRIORITY(TimerRegistry, c10::kCUDA, c10::REGISTRY_PREFERRED, mt_dry::card_timer)

} // namespace c10d

void memtrace_dry_group(const char *name, const char *folder, const char *device, const char *backend, const int *ranks)
{
    const auto process_group = c10d::resolve_process_group(name);
    const auto type = mt_dry::type_of(backend);
    const int rank = process_group->getRank(), size = process_group->getSize();
    mt_dry::mailbox mail(folder, name, rank, std::vector<int>(ranks, ranks + size));
    const auto made = c10::make_intrusive<mt_dry::group>(std::move(mail), rank, size, backend);
    made->setGroupUid(name);
    process_group->setBackend(c10::Device(device).type(), type, made);
    if (process_group->getBoundDeviceId().has_value())
        made->begin();
    if (process_group->getBackendType() != c10d::ProcessGroup::NCCL)
        process_group->setDefaultBackend(type);
}
