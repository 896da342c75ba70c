#include "producers/torch/dry/dry_mail.h"

#include "producers/torch/dry/dry_assumed.h"
#include "producers/torch/dry/dry_values.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace mt_dry
{

using at::Tensor;

namespace
{

constexpr std::chrono::milliseconds TICK(1);

/* True if a tensor can be sent: it is small and has integers. */
bool is_message(const Tensor &tensor)
{
    return tensor.numel() > 0 && has_values(tensor) && c10::isIntegralType(tensor.scalar_type(), true);
}

bool exists(const std::string &path)
{
    return std::ifstream(path).good();
}

void leave(const std::string &path)
{
    std::ofstream file(path);
}

} // namespace

mailbox::mailbox(std::string folder, std::string group, int rank, std::vector<int> ranks)
    : folder_(std::move(folder)), group_(std::move(group)), rank_(rank), ranks_(std::move(ranks))
{
}

std::string mailbox::word(const char *name, int rank) const
{
    return folder_ + "/" + name + "." + std::to_string(ranks_[rank]);
}

std::string mailbox::next_path(int from, int to)
{
    const uint64_t number = counts_[{from, to}]++;
    return folder_ + "/mail." + group_ + "." + std::to_string(from) + "." + std::to_string(to) + "." +
           std::to_string(number);
}

void mailbox::send(const Tensor &tensor, int to)
{
    if (folder_.empty() || !is_message(tensor))
        return;
    const std::string path = next_path(rank_, to), part = path + ".part";
    const Tensor values = values_of(tensor).contiguous();
    std::ofstream file(part, std::ios::binary);
    file.write(static_cast<const char *>(values.const_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
    file.close();
    TORCH_CHECK(file.good() && std::rename(part.c_str(), path.c_str()) == 0,
                "memtrace: a message between ranks can't be kept in ", path);
}

/* Waits until a message arrives. False if it will not. */
bool mailbox::wait_for(const std::string &path, int from, int to) const
{
    if (folder_.empty())
        return false;
    if (!exists(word("rank", from))) {
        if (to == EVERY_RANK)
            return false;
        leave(word("wanted", from));
    }
    const std::string waits = word("waits", rank_);
    bool is_over = false;
    while (!exists(path) && !is_over) {
        is_over = exists(word("gone", from)) || exists(folder_ + "/stuck");
        leave(waits);
        std::this_thread::sleep_for(TICK);
    }
    std::remove(waits.c_str());
    return exists(path);
}

void mailbox::receive(const Tensor &tensor, int from, int to)
{
    if (!is_message(tensor))
        return;
    const std::string path = next_path(from, to);
    if (!wait_for(path, from, to)) {
        note_assumption("integers sent by rank " + std::to_string(ranks_[from]) + " (this rank's own)", NAN);
        return;
    }
    Tensor values = at::empty(tensor.sizes(), tensor.options().device(c10::DeviceType::CPU));
    std::ifstream file(path, std::ios::binary);
    file.read(static_cast<char *>(values.mutable_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
    TORCH_CHECK(file.gcount() == static_cast<std::streamsize>(values.nbytes()), "memtrace: rank ", ranks_[from],
                " sent ", file.gcount(), " bytes of whole numbers, where rank ", ranks_[rank_], " receives ",
                values.nbytes());
    copy_values(tensor, values);
}

} // namespace mt_dry
