/* cuDNN's plans for a convolution on a card that is not there, and the workspaces that PyTorch's call takes on this
 * card.
 *
 * The two differ where cuDNN would ask the card: engines that need a handle are left out of its list, and its tile
 * schedulers for Hopper count the clusters that run at once. What they take is computed here, by formulas and tables
 * that were found from records of a card (cudnn_plan.c says which). Pure functions. */
#pragma once

#include "operators/convolution.h"

enum { MT_CUDNN_MOST_REJECTED = 48 };

/* The first version of cuDNN that plans for a card that is not there: 9.8. */
enum { MT_CUDNN_OLDEST = 90800 };

/* How to get a version that was checked. */
#define MT_CUDNN_ADVICE "pip install nvidia-cudnn-cu13==9.19.0.56"

/* Why an engine is not in the list. */
enum mt_cudnn_reason {
    MT_CUDNN_NEEDS_HANDLE, /* no reason is given */
    MT_CUDNN_NEEDS_DRIVER, /* it is compiled at run time */
    MT_CUDNN_UNSUPPORTED   /* not for this convolution; on a card neither */
};

/* A plan, with the knobs that decide about its workspace: cuDNN's numbers, MT_CUDNN_NO_KNOB without one. */
struct mt_cudnn_plan {
    int64_t workspace_bytes;
    int32_t engine;
    int16_t tile, step, split, cluster_m, cluster_n, unused;
};
enum { MT_CUDNN_NO_KNOB = -1 };

/* The plans that PyTorch's filters keep and that can be built, in the order in which PyTorch tries them; the first one
 * alone unless the question asks for all. Stored as bytes: no padding, unused members are 0. */
struct mt_cudnn_plans {
    int64_t count, rejected_count, first_rejected_count; /* first_rejected_count: before the first plan */
    struct mt_cudnn_plan plans[MT_CONVOLUTION_MOST_PLANS];
    struct mt_cudnn_rejected {
        int32_t engine, reason;
    } rejected[MT_CUDNN_MOST_REJECTED]; /* in the order of the list */
};

/* True if the tables were checked under this version of cuDNN (91900 is 9.19.0) by calls on this card. */
bool mt_cudnn_is_checked(int64_t version, const struct mt_card *card);

/* Writes what the convolution takes on the card. It is an estimate unless the version and the card were checked, and
 * the bytes follow from the shapes. False if there is no plan. */
bool mt_cudnn_plan_answer(int64_t version, const struct mt_card *card, const struct mt_convolution_question *question,
                          const struct mt_cudnn_plans *plans, struct mt_convolution_answer *out);
