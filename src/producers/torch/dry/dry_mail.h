/* Whole numbers that one rank sends to others, kept in files of a folder, since ranks are run one after the other.
 *
 * A message is known by group, sender, receiver and its number among those of this pair, so that the call reads it that would
 * receive it. Only what has values and holds whole numbers is a message: the sizes and bytes of pickled objects, counts, seeds.
 * Other tensors are left as they are. `memtrace dry-run` made the folder, and runs the ranks (producers/program/rank_runs.h says
 * what files it has besides).
 *
 * Threads: one at a time. */
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mt_dry
{

/* Ranks are those of the group. */
class mailbox final
{
  public:
    static constexpr int EVERY_RANK = -1; /* the receiver of a broadcast */

    /* `folder` is "" where no ranks are run. `ranks` are the numbers of the group's ranks in the whole program. */
    mailbox(std::string folder, std::string group, int rank, std::vector<int> ranks);

    /* Keeps a message for the receiver. Throws c10::Error if it can't be written. */
    void send(const at::Tensor &tensor, int to);

    /* Reads a message into a tensor; waits until it is sent. If its sender is not run, the tensor is left, and the place in the
     * program is told of. Of a message to this rank alone the sender is run, too. */
    void receive(const at::Tensor &tensor, int from, int to);

  private:
    std::string next_path(int from, int to);
    bool wait_for(const std::string &path, int from, int to) const;
    std::string word(const char *name, int rank) const;

    std::string folder_, group_; /* no folder: this rank is run without others */
    int rank_;
    std::vector<int> ranks_;
    std::map<std::pair<int, int>, uint64_t> counts_; /* of messages, by sender and receiver */
};

} // namespace mt_dry
