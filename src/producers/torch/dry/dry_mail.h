/* Integers that one rank sends to others, stored in files of a folder, since ranks run one after another.
 *
 * A message is identified by group, sender, receiver and its number among the messages of this pair, so that the
 * matching call reads it. Only integers with values are sent: the sizes and bytes of pickled objects, counts, seeds.
 * Other tensors do not change. `memtrace dry-run` creates the folder and runs the ranks (producers/program/rank_runs.h
 * describes its other files).
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

/* Ranks are numbers within the group. */
class mailbox final
{
  public:
    static constexpr int EVERY_RANK = -1; /* the receiver of a broadcast */

    /* `folder` is "" if no other ranks run. `ranks` are the numbers of the group's ranks in the whole program. */
    mailbox(std::string folder, std::string group, int rank, std::vector<int> ranks);

    /* Stores a message for the receiver. Throws c10::Error if it can't be written. */
    void send(const at::Tensor &tensor, int to);

    /* Reads a message into a tensor; waits until it is sent. A message to this rank alone makes its sender run, too. If
     * the sender does not run, the tensor does not change, and an assumption is recorded. */
    void receive(const at::Tensor &tensor, int from, int to);

  private:
    std::string next_path(int from, int to);
    bool wait_for(const std::string &path, int from, int to) const;
    std::string word(const char *name, int rank) const;

    std::string folder_, group_; /* no folder: this rank runs alone */
    int rank_;
    std::vector<int> ranks_;
    std::map<std::pair<int, int>, uint64_t> counts_; /* of messages, by sender and receiver */
};

} // namespace mt_dry
