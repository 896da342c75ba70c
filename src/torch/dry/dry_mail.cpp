/* The mail between ranks: one file a message, in the folder MEMTRACE_DRY_MAIL. */
#include "torch/dry/dry_mail.h"

#include "torch/dry/dry_values.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <fstream>

namespace mt_dry
{

using at::Tensor;

namespace
{

/* True if a tensor can be sent: small, and of whole numbers. */
bool is_message(const Tensor &tensor)
{
    return tensor.numel() > 0 && has_values(tensor) && c10::isIntegralType(tensor.scalar_type(), true);
}

} // namespace

std::string mailbox::next_path(int from, int to)
{
    const char *folder = std::getenv("MEMTRACE_DRY_MAIL");
    const uint64_t number = counts_[{from, to}]++;
    if (folder == nullptr)
        return "";
    return std::string(folder) + "/" + group_ + "." + std::to_string(from) + "." + std::to_string(to) + "." +
           std::to_string(number);
}

void mailbox::send(const Tensor &tensor, int to)
{
    if (!is_message(tensor))
        return;
    const std::string path = next_path(rank_, to);
    if (path.empty() || !is_known(tensor))
        return;
    const Tensor values = values_of(tensor).contiguous();
    std::ofstream file(path, std::ios::binary);
    file.write(static_cast<const char *>(values.const_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
    file.close();
    TORCH_CHECK(file.good(), "memtrace: a message between ranks can't be kept in ", path);
}

void mailbox::receive(const Tensor &tensor, int from, int to)
{
    if (!is_message(tensor))
        return;
    Tensor values = at::empty(tensor.sizes(), tensor.options().device(c10::DeviceType::CPU));
    std::ifstream file(next_path(from, to), std::ios::binary);
    file.read(static_cast<char *>(values.mutable_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
    if (file.gcount() == static_cast<std::streamsize>(values.nbytes()))
        copy_values(tensor, values);
    else
        tell_assumption("the whole numbers that rank " + std::to_string(from) + " of group " + group_ +
                        " sends are not known, since it is not run before this rank; those at hand are taken");
}

} // namespace mt_dry
