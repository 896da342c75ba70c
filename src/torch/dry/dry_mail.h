/* Whole numbers that one rank sends to others, kept in files of a folder: ranks are run one after the other.
 *
 * A message is known by group, sender, receiver and its number among those of this pair, so that it is read by the call that would
 * receive it. Only what is on the host, is known and holds whole numbers is kept: the sizes and bytes of pickled objects,
 * counts, seeds. Threads: one at a time. */
#ifndef MT_TORCH_DRY_MAIL_H
#define MT_TORCH_DRY_MAIL_H

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace mt_dry
{

class mailbox final
{
  public:
    static constexpr int EVERY_RANK = -1; /* the receiver of a broadcast */

    mailbox(std::string group, int rank) : group_(std::move(group)), rank_(rank)
    {
    }

    /* Keeps a tensor for the receiver, if it is one of whole numbers that are known. Throws c10::Error if it can't be written. */
    void send(const at::Tensor &tensor, int to);

    /* Writes what the sender has kept into a tensor. One of other numbers is left as it is. If nothing was kept, since the sender
     * was not run before, the tensor is left, and the place in the program is told of. */
    void receive(const at::Tensor &tensor, int from, int to);

  private:
    std::string next_path(int from, int to);

    std::string group_;
    int rank_;
    std::map<std::pair<int, int>, uint64_t> counts_; /* of messages, by sender and receiver */
};

} // namespace mt_dry

#endif
