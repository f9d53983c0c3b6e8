/* The compiled loops over rows; `dispatch.py` loads them and calls them.

   A loop takes the arguments of its plain NumPy form, its definition, and leaves the same bits:
   integers wrap around, and floating point is added in one order, never fused or reordered. Bounds
   were checked by the caller. An element is read before it is chosen by: a branch stays otherwise.

   Shapes: F features, n rows, k rows of a selection, N nodes, B bins, C channels, T trees, O
   outputs, P groups (features or trees, an even number of them). Codes are feature-major (F, n). */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;
typedef int16_t i16; typedef int32_t i32; typedef int64_t i64;

/* An array with its shape, all elements side by side, or one number. */
typedef struct {
    union {
        void *data;
        double number;
        i64 whole;
    };
    i64 shape[4];
} Arg;

/* A number, and its bits: those of 1.5 x 2^52 + k are a constant + k, for whole k below 2^51. */
typedef union { double number; i64 bits; } Word;
static const Word WHOLE = { 0x1.8p52 };

#define INLINE static inline __attribute__((always_inline))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

enum {
    BLOCK = 4096,      /* rows that stay in the first-level cache while all groups pass over them */
    FEW_ROWS = 8,      /* fewer walk down: in a block every node of a tree is evaluated */
    BYTE_LEAVES = 256, /* up to here a leaf number is a byte, and 32 rows are routed at a time */
    CHECKED = 512,     /* records between truncation and check */
    FEW = 512,         /* records whose groups stay there while all tables pass over them */
    TILE = 64,         /* records whose entries stay while the sums of one entry pass over them */
    N_CODES = 256,
    NO_MEMORY = -2,
};
static const i64 MOST_PACKED = (1 << 30) / BLOCK; /* smaller numbers do not fill half a word */

/* Whether this processor and its system run the loops that were made for AVX2. */
i64 runs_avx2(void)
{
#ifdef __x86_64__
    u32 eax, ebx, ecx, edx, kept = 0;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(kept), "=d"(edx) : "c"(0));
    return (kept & 6) == 6 && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ebx & bit_AVX2;
#else
    return 0;
#endif
}

/* ------------------------------------------------------------------- sums over cells or leaves */

typedef struct {
    i64 channels, bins, room; /* room: N * B */
    i64 bound;                /* on any half of a lane; -1 where lanes are not used */
    i64 *out, *lanes;         /* (P, N, B, C), and (P, N * B) both channels in one word */
    i64 groups, n;            /* n: rows of the block */
    const i64 *stats;         /* of the block */
    u32 starts[BLOCK];        /* where the sums of each row's node begin */
    i64 words[BLOCK];         /* both channels of a row, the first one in the high half */
} Sums;

INLINE u64 cell_of(const void *cells, int wide, i64 i)
{
    return wide ? ((const u16 *)cells)[i] : ((const u8 *)cells)[i];
}

/* Without channels each row counts one. False without memory. */
static int begin_sums(Sums *s, i64 channels, const Arg *out)
{
    s->channels = channels, s->bins = out->shape[2], s->groups = out->shape[0];
    s->room = out->shape[1] * out->shape[2], s->bound = 0, s->out = out->data;
    s->lanes = calloc(s->channels == 2 ? s->groups * s->room + 1 : 1, sizeof(i64));
    return s->lanes != NULL;
}

/* Adds the lanes to the sums and empties them. */
static void unpack(Sums *s)
{
    for (i64 p = 0; p < s->groups * s->room; p++) {
        i64 low = (i32)(u32)s->lanes[p];
        s->out[2 * p] += (s->lanes[p] - low) >> 32;
        s->out[2 * p + 1] += low;
        s->lanes[p] = 0;
    }
}

static i64 end_sums(Sums *s, i64 result)
{
    if (s->channels == 2)
        unpack(s);
    free(s->lanes);
    return result;
}

/* Words of a block. One addition then does for two channels. But a half that passes 2^31 would
   change its neighbor, and the sum would no longer be the sum: so lanes are emptied before they
   could be that full, and a block of larger numbers is not packed. */
static void pack(Sums *s, u64 largest)
{
    for (i64 i = 0; i < s->n; i++)
        s->words[i] = (i64)((u64)s->stats[2 * i] << 32) + s->stats[2 * i + 1];
    int fits = largest < (u64)MOST_PACKED;
    i64 more = fits ? (i64)(largest + 1) * s->n : 0, before = MAX(s->bound, 0);
    if (!fits || before + more >= (i64)1 << 31)
        unpack(s), before = 0;
    s->bound = fits ? before + more : -1;
}

/* At least the largest size of n numbers, less one. */
static u64 largest_of(const i64 *numbers, i64 n)
{
    u64 largest = 0;
    for (i64 i = 0; i < n; i++)
        largest |= (u64)(numbers[i] ^ (numbers[i] >> 63));
    return largest;
}

/* The block's n rows, with their nodes and statistics. */
static void begin_block(Sums *s, const i32 *node_of, const i64 *stats, i64 n)
{
    s->n = n, s->stats = stats;
    for (i64 i = 0; i < n; i++)
        s->starts[i] = (u32)node_of[i] * (u32)s->bins;
    if (s->channels == 2)
        pack(s, largest_of(stats, 2 * n));
}

INLINE void put(i64 *to, const i64 *from, i64 channels, u64 place, i64 i)
{
    if (channels == 0)
        to[place]++;
    for (i64 c = 0; c < channels; c++)
        to[place * channels + c] += from[i * channels + c];
}

/* Adds to two groups at once: an addition need not wait for the last one in the same group. With
   `half` they are one group's first and second half of the rows, and the first has one row more. */
INLINE void add_rows(const Sums *s, i64 j, const void *a, const void *b, int wide, i64 half,
                     i64 *all, const i64 *from, i64 channels)
{
    i64 *restrict to_a = all + j * s->room * MAX(channels, 1);
    i64 *restrict to_b = to_a + s->room * MAX(channels, 1);
    const u32 *restrict starts = s->starts;
    i64 n = s->n - half;
    for (i64 i = 0; i < n; i++) {
        put(to_a, from, channels, cell_of(a, wide, i) + starts[i], i);
        put(to_b, from, channels, cell_of(b, wide, i) + starts[i + half], i + half);
    }
    for (i64 i = n; i < half; i++)
        put(to_a, from, channels, cell_of(a, wide, i) + starts[i], i);
}

INLINE void add_two(Sums *s, i64 j, const void *a, const void *b, int wide, i64 half)
{
    if (s->channels == 0)
        add_rows(s, j, a, b, wide, half, s->out, NULL, 0);
    else if (s->channels == 2 && s->bound >= 0)
        add_rows(s, j, a, b, wide, half, s->lanes, s->words, 1);
    else
        add_rows(s, j, a, b, wide, half, s->out, s->stats, s->channels);
}

/* Cells of a block of a selection; the empty selection stands for all rows. */
INLINE const void *cells_of(const void *column, int wide, const Arg *rows, i64 lo, i64 n, void *to)
{
    if (rows->shape[0] == 0)
        return (const u8 *)column + (lo << wide);
    const i32 *chosen = (const i32 *)rows->data + lo;
    for (i64 i = 0; i < n; i++) {
        if (wide)
            ((u16 *)to)[i] = ((const u16 *)column)[chosen[i]];
        else
            ((u8 *)to)[i] = ((const u8 *)column)[chosen[i]];
    }
    return to;
}

INLINE int all_below(const void *cells, int wide, i64 n, u64 bins)
{
    u16 highest = 0;
    for (i64 i = 0; i < n; i++)
        highest = MAX(highest, (u16)cell_of(cells, wide, i));
    return highest < bins;
}

INLINE i64 sum_cells_of(const Arg *a, int wide)
{
    const Arg *codes = a, *rows = a + 1, *pairs = a + 3;
    const i32 *node_of = a[2].data, *features = pairs->data;
    const i64 *stats = a[4].data;
    i64 n = a[2].shape[0];
    u16 first[BLOCK], second[BLOCK];
    Sums sums, *s = &sums;
    if (!begin_sums(s, a[4].shape[1], a + 5))
        return NO_MEMORY;
    for (i64 lo = 0; lo < n; lo += BLOCK) {
        begin_block(s, node_of + lo, stats + lo * s->channels, MIN(n - lo, BLOCK));
        for (i64 j = 0; j < pairs->shape[0]; j += 2) {
            const u8 *column = codes->data;
            i64 stride = codes->shape[1] << wide;
            const void *x = cells_of(column + features[j] * stride, wide, rows, lo, s->n, first);
            const void *y = cells_of(column + features[j + 1] * stride, wide, rows, lo, s->n, second);
            if (!all_below(x, wide, s->n, s->bins) || !all_below(y, wide, s->n, s->bins))
                return end_sums(s, 0);
            add_two(s, j, x, y, wide, 0);
        }
    }
    return end_sums(s, 1);
}

/* (codes, rows, node_of, pairs, stats, out (P, N, B, C)): adds stats (k, C). 0: a code is no bin. */
i64 sum_cells(const Arg *a) { return sum_cells_of(a, 0); }
i64 sum_wide_cells(const Arg *a) { return sum_cells_of(a, 1); }

/* ------------------------------------------------------------------------------ scores of cuts */

enum { BY_GINI, BY_BALANCE, BY_SQUARES };

/* Twice the impurity of a child in units of `unit`, rounded down as its plain form does. */
INLINE i64 loss_of(const i64 *sums, i64 n, i64 channels, i64 kind, i64 unit)
{
    i64 squares = 0;
    if (kind == BY_SQUARES)
        return (n * sums[2] - sums[1] * sums[1]) / MAX(n * unit, 1);
    for (i64 c = 0; c < channels; c++)
        squares += sums[c] * sums[c];
    return 2 * (unit * (n * n - squares) / (2 * MAX(n, 1)));
}

/* (tables (f, B, C), table_of (R), also (R), first (R + 1), at (k), kind, unit, balance, out (k)):
   scores of the cuts of R runs. 0: a number is too large, or a cut is no cell. */
i64 score_cuts(const Arg *a)
{
    const i64 *tables = a[0].data, *table_of = a[1].data, *also = a[2].data, *first = a[3].data;
    const i64 *at = a[4].data;
    i64 bins = a[0].shape[1], channels = a[0].shape[2], kind = a[5].whole, unit = a[6].whole;
    i64 *out = a[8].data, total[N_CODES] = {0}, below[N_CODES], left[N_CODES], right[N_CODES];
    if (channels > N_CODES)
        return 0;
    for (i64 b = 0; b < bins * channels; b++)
        total[b % channels] += tables[b];
    i64 n = 0;
    for (i64 c = 0; c < (kind == BY_SQUARES ? 1 : channels); c++)
        n += total[c];
    if (n >= 1 << (kind == BY_SQUARES ? 17 : 23)) /* n^2 units^2, and n^2 units, below 2^61 */
        return 0;
    for (i64 r = 0; r < a[1].shape[0]; r++) {
        const i64 *table = tables + table_of[r] * bins * channels;
        i64 cell = 0;
        memset(below, 0, sizeof below);
        for (i64 k = first[r]; k < first[r + 1]; k++) {
            if (at[k] <= cell || at[k] > bins || also[r] >= bins)
                return 0;
            i64 rows = 0, seen = 0;
            for (; cell < at[k]; cell++)
                for (i64 c = 0; c < channels; c++) {
                    seen |= table[cell * channels + c];
                    below[c] += table[cell * channels + c];
                }
            if (k > first[r] && !seen && (also[r] >= at[k]) == (also[r] >= at[k - 1])) {
                out[k] = out[k - 1]; /* the same rows on either side */
                continue;
            }
            for (i64 c = 0; c < channels; c++) {
                left[c] = below[c] + (also[r] >= at[k] ? table[also[r] * channels + c] : 0);
                right[c] = total[c] - left[c];
                rows += c == 0 || kind != BY_SQUARES ? left[c] : 0;
            }
            i64 largest = MAX(rows, n - rows), loss = unit * (2 * largest - n);
            if (kind != BY_BALANCE)
                loss = loss_of(left, rows, channels, kind, unit)
                       + loss_of(right, n - rows, channels, kind, unit);
            out[k] = -(loss + a[7].whole * largest);
        }
    }
    return 1;
}

/* ---------------------------------------------------------------------------- routing by trees */

/* The fields of `PackedTrees`, in its order. */
enum { ROOT, FEATURE, LEFT_BITS, LEFT, RIGHT, LEAF, RUN_FIRST, RUN_START, RUN_WIDTH, OBLIVIOUS };
enum { N_LEAVES = OBLIVIOUS + 1, DEPTH, VALUE, N_FEATURES, N_FIELDS };
#define FIELD(type, name) (((const type *)trees[name].data))

/* Rows whose cell is in the run take the left result; cells below `start` wrap to the top. */
static void take_left(const u8 *restrict cells, u8 start, u8 width, const u8 *restrict left,
                      u8 *restrict result, i64 n)
{
    for (i64 i = 0; i < n; i++) {
        u8 yes = left[i], no = result[i];
        result[i] = (u8)(cells[i] - start) < width ? yes : no;
    }
}

/* Evaluates the tree as an expression over a block of rows; the result is the stack's first row.
   In reverse preorder a leaf pushes its number, and a test finds its left result on top of its
   right result. It leaves, row by row, one of the two: no row branches, and any shape will do. */
static void by_nodes(const Arg *trees, i64 t, const u8 *codes, i64 stride, i64 n, u8 *stack)
{
    u8 *top = stack - BLOCK;
    for (i64 q = FIELD(i32, ROOT)[t + 1] - 1; q >= FIELD(i32, ROOT)[t]; q--) {
        if (FIELD(i32, FEATURE)[q] < 0) {
            top += BLOCK;
            memset(top, (u8)FIELD(i32, LEAF)[q], n);
            continue;
        }
        for (i64 r = FIELD(i32, RUN_FIRST)[q]; r < FIELD(i32, RUN_FIRST)[q + 1]; r++)
            take_left(codes + FIELD(i32, FEATURE)[q] * stride, FIELD(u8, RUN_START)[r],
                      FIELD(u8, RUN_WIDTH)[r], top, top - BLOCK, n);
        top -= BLOCK;
    }
}

/* An oblivious tree: its leaf number in binary is the outcomes of its levels. */
static void by_levels(const Arg *trees, i64 t, const u8 *codes, i64 stride, i64 n, u8 *leaves)
{
    i64 first = FIELD(i32, ROOT)[t];
    memset(leaves, 0, n);
    for (i64 q = first; q < first + FIELD(i32, DEPTH)[t]; q++) { /* down the left edge */
        const u8 *cells = codes + FIELD(i32, FEATURE)[q] * stride;
        for (i64 i = 0; i < n; i++)
            leaves[i] = (u8)(2 * leaves[i] + 1);
        for (i64 r = FIELD(i32, RUN_FIRST)[q]; r < FIELD(i32, RUN_FIRST)[q + 1]; r++) {
            u8 start = FIELD(u8, RUN_START)[r], width = FIELD(u8, RUN_WIDTH)[r];
            for (i64 i = 0; i < n; i++)
                leaves[i] -= (u8)(cells[i] - start) < width;
        }
    }
}

INLINE u64 goes_left(const u64 *bits, u8 cell) { return bits[cell >> 6] >> (cell & 63) & 1; }

/* For few rows, or trees of more leaves than a byte can number: all rows go a level a time. No row
   leaves early, since a row at its leaf stays there: that costs less than a branch. */
static void by_rows(const Arg *trees, i64 t, const u8 *codes, i64 stride, i64 n, u16 *leaves)
{
    i32 node[BLOCK];
    for (i64 i = 0; i < n; i++)
        node[i] = FIELD(i32, ROOT)[t];
    for (i64 level = 0; level < FIELD(i32, DEPTH)[t]; level++)
        for (i64 i = 0; i < n; i++) {
            i64 q = node[i], feature = MAX(FIELD(i32, FEATURE)[q], 0);
            i32 left = FIELD(i32, LEFT)[q], right = FIELD(i32, RIGHT)[q];
            i32 is_left = goes_left(FIELD(u64, LEFT_BITS) + 4 * q, codes[feature * stride + i]);
            node[i] = right ^ ((left ^ right) & -is_left); /* one of the two, without a branch */
        }
    for (i64 i = 0; i < n; i++)
        leaves[i] = (u16)FIELD(i32, LEAF)[node[i]];
}

/* Leaf of n rows from `lo` on. */
static void route(const Arg *trees, i64 t, const Arg *codes, i64 lo, i64 n, u8 *stack, u16 *leaves)
{
    const u8 *cells = (const u8 *)codes->data + lo;
    i64 stride = codes->shape[1];
    if (n < FEW_ROWS || FIELD(i32, N_LEAVES)[t] > BYTE_LEAVES) {
        by_rows(trees, t, cells, stride, n, leaves);
        return;
    }
    if (FIELD(u8, OBLIVIOUS)[t])
        by_levels(trees, t, cells, stride, n, stack);
    else
        by_nodes(trees, t, cells, stride, n, stack);
    for (i64 i = 0; i < n; i++)
        leaves[i] = stack[i];
}

static u8 *stack_for(const Arg *trees)
{
    i64 deepest = 0;
    for (i64 t = 0; t < trees[DEPTH].shape[0]; t++)
        deepest = MAX(deepest, FIELD(i32, DEPTH)[t]);
    return malloc((deepest + 2) * BLOCK);
}

/* Adds the statistics of the block, which begins at row `lo`, to their leaves. */
static void add_leaves(Sums *s, const Arg *trees, const Arg *codes, i64 lo, u8 *stack)
{
    i64 half = s->n - s->n / 2;
    u16 leaves[BLOCK];
    for (i64 t = 0; t < trees[DEPTH].shape[0]; t++) {
        route(trees, t, codes, lo, s->n, stack, leaves);
        add_two(s, 2 * t, leaves, leaves + half, 1, half);
    }
}

/* (trees, codes, node_of, stats, out (2 T, N, L, C)): stats by leaf, of halves of all blocks. */
i64 sum_leaves(const Arg *trees)
{
    const Arg *codes = trees + N_FIELDS;
    const i32 *node_of = codes[1].data;
    const i64 *stats = codes[2].data;
    i64 n = codes[1].shape[0];
    u8 *stack = stack_for(trees);
    Sums sums, *s = &sums;
    int ready = stack && begin_sums(s, codes[2].shape[1], codes + 3);
    for (i64 lo = 0; ready && lo < n; lo += BLOCK) {
        begin_block(s, node_of + lo, stats + lo * s->channels, MIN(n - lo, BLOCK));
        add_leaves(s, trees, codes, lo, stack);
    }
    free(stack);
    return ready ? end_sums(s, 1) : NO_MEMORY;
}

/* Adds all trees to the scores of n rows from `lo` on. `limits`: low, high. */
INLINE void add_trees(const Arg *trees, const Arg *codes, const Arg *limits, i64 lo, i64 n,
                      double *raw, i64 outputs, u8 *stack)
{
    double low = limits[0].number, high = limits[1].number;
    u16 leaves[BLOCK];
    for (i64 t = 0; t < trees[DEPTH].shape[0]; t++) {
        const double *value = FIELD(double, VALUE) + t * trees[VALUE].shape[1] * outputs;
        route(trees, t, codes, lo, n, stack, leaves);
        for (i64 i = 0; i < n; i++)
            for (i64 o = 0; o < outputs; o++) {
                double total = raw[i * outputs + o] + value[leaves[i] * outputs + o];
                total = total < low ? low : total;
                raw[i * outputs + o] = total > high ? high : total;
            }
    }
}

/* (trees, codes, low, high, raw) */
i64 add_values(const Arg *trees)
{
    const Arg *codes = trees + N_FIELDS, *out = codes + 3;
    i64 n = out->shape[0], outputs = out->shape[1];
    u8 *stack = stack_for(trees);
    for (i64 lo = 0; stack && lo < n; lo += BLOCK) {
        double *raw = (double *)out->data + lo * outputs;
        if (outputs == 1)
            add_trees(trees, codes, codes + 1, lo, MIN(n - lo, BLOCK), raw, 1, stack);
        else
            add_trees(trees, codes, codes + 1, lo, MIN(n - lo, BLOCK), raw, outputs, stack);
    }
    free(stack);
    return stack ? 1 : NO_MEMORY;
}

/* ----------------------------------------------------------------------------- nodes of a layer */

/* (standing, feature, left, children, codes, out) */
i64 next_nodes(const Arg *a)
{
    const i32 *standing = a[0].data, *children = a[3].data;
    const i16 *feature = a[1].data;
    const u64 *left = a[2].data;
    const u8 *codes = a[4].data;
    i32 *out = a[5].data;
    i64 n = a[0].shape[0];
    for (i64 r = 0; r < n; r++) {
        i64 at = standing[r];
        out[r] = -1;
        if (at >= 0 && feature[at] >= 0)
            out[r] = children[2 * at + 1 - goes_left(left + 4 * at, codes[feature[at] * n + r])];
    }
    return 1;
}

/* Adds to out (m, 2 N, C) on the side that each test of a row's node sends it to. */
INLINE i64 add_sides(const Arg *a, i64 channels, int count)
{
    const i32 *standing = a[0].data;
    const i16 *feature = a[1].data;
    const u64 *left = a[2].data;
    const u8 *codes = a[3].data, *labels = a[4].data;
    const i64 *stats = a[4].data;
    i64 *out = a[5].data, n = a[0].shape[0], m = a[1].shape[1], width = a[5].shape[1] * channels;
    for (i64 r = 0; r < n; r++) {
        i64 first = standing[r] * m;
        for (i64 test = first; first >= 0 && test < first + m; test++) {
            if (feature[test] < 0)
                continue;
            u64 is_left = goes_left(left + 4 * test, codes[feature[test] * n + r]);
            i64 *to = out + (test - first) * width + (2 * standing[r] + 1 - is_left) * channels;
            if (count)
                to[labels[r]]++;
            for (i64 c = 0; !count && c < channels; c++)
                to[c] += stats[r * channels + c];
        }
    }
    return 1;
}

/* (standing, feature, left, codes, labels or stats, out) */
i64 count_sides(const Arg *a) { return add_sides(a, a[5].shape[2], 1); }
i64 sum_sides(const Arg *a)
{
    return a[5].shape[2] == 2 ? add_sides(a, 2, 0) : add_sides(a, a[5].shape[2], 0);
}

/* ------------------------------------------------------------------------------ cells and rows */

/* The guide counts the cuts in lower buckets; a value's own bucket holds one cut at most. */
static void by_guide(const double *values, const Arg *cuts, const Arg *guide, double scale, u8 *out,
                     i64 n)
{
    const u8 *before = guide->data;
    double following[N_CODES], low = *(double *)cuts->data, last = guide->shape[0] - 1;
    memcpy(following, cuts->data, cuts->shape[0] * sizeof(double));
    following[cuts->shape[0]] = NAN; /* no value is at or above it */
    for (i64 i = 0; i < n; i++) {
        double bucket = (values[i] - low) * scale;
        bucket = bucket > 0.0 ? bucket : 0.0; /* NaN too */
        u8 cell = before[(i32)(bucket < last ? bucket : last)];
        out[i] = cell + (values[i] >= following[cell]);
    }
}

/* Binary search in a number of steps that the compiler knows, so that it needs no branch. */
static void by_search(const double *values, const Arg *cuts, u8 *out, i64 n)
{
    double padded[N_CODES];
    u64 n_cuts = cuts->shape[0];
    for (i64 k = 0; k < N_CODES; k++)
        padded[k] = (u64)k < n_cuts ? ((double *)cuts->data)[k] : INFINITY;
    for (i64 i = 0; i < n; i++) {
        u64 code = 0;
        for (u64 step = N_CODES / 2; step; step /= 2)
            code += -(u64)(padded[code + step - 1] <= values[i]) & step;
        out[i] = (u8)MIN(code, n_cuts); /* infinity is not below the padding */
    }
}

/* (values, cuts, guide, scale, out): number of cuts at or below each value; NaN: one more. */
i64 encode(const Arg *a)
{
    const double *values = a[0].data;
    u8 *out = a[4].data, missing = (u8)(a[1].shape[0] + 1);
    i64 n = a[0].shape[0];
    if (a[2].shape[0])
        by_guide(values, a + 1, a + 2, a[3].number, out, n);
    else
        by_search(values, a + 1, out, n);
    for (i64 i = 0; i < n; i++)
        out[i] = values[i] == values[i] ? out[i] : missing;
    return 1;
}

/* (codes, tables, out) */
i64 recode(const Arg *a)
{
    const u8 *codes = a[0].data, *table = a[1].data;
    u8 *out = a[2].data;
    i64 n = a[0].shape[1];
    for (i64 j = 0; j < a[0].shape[0]; j++, codes += n, out += n, table += N_CODES)
        for (i64 i = 0; i < n; i++)
            out[i] = table[codes[i]];
    return 1;
}

/* (cells, rows, goes_left, lefts, rights) */
i64 split_rows(const Arg *a)
{
    const u8 *cells = a[0].data, *is_left = a[2].data;
    const i32 *rows = a[1].data;
    i32 *lefts = a[3].data, *rights = a[4].data;
    i64 n_left = 0;
    for (i64 i = 0; i < a[1].shape[0]; i++) {
        lefts[n_left] = rights[i - n_left] = rows[i]; /* only one side moves on */
        n_left += is_left[cells[rows[i]]];
    }
    return n_left;
}

/* -------------------------------------------------------------- numbers that keep their bounds */

/* How many records exceed the bound. */
INLINE i64 n_beyond(const double *sizes, i64 n, i64 channels, const Arg *norms)
{
    double l1 = norms[0].number, l2_squared = norms[1].number, linf = norms[2].number;
    i64 beyond = 0;
    for (i64 i = 0; i < n; i++) {
        double total = 0, squares = 0, largest = 0;
        for (i64 c = 0; c < channels; c++) {
            double size = sizes[i * channels + c];
            total += size, squares += size * size, largest = MAX(largest, size);
        }
        beyond += (total > l1) | (squares > l2_squared) | (largest > linf);
    }
    return beyond;
}

/* Values of at most `CHECKED` records as integers. `bounds`: unit, l1, l2_squared, linf. */
INLINE void bound_records(const double *values, i64 rows, i64 channels, const Arg *bounds,
                          double *sizes, i64 *out)
{
    double unit = bounds->number;
    for (i64 k = 0; k < rows * channels; k++) {
        double multiple = trunc(values[k] * unit);
        multiple = fabs(multiple) < INFINITY ? multiple : 0.0; /* NaN is not less either */
        sizes[k] = fabs(multiple);
        Word whole = { (sizes[k] < 0x1p51 ? multiple : 0.0) + WHOLE.number };
        out[k] = whole.bits - WHOLE.bits; /* no bound is 2^51 */
    }
    if (!n_beyond(sizes, rows, channels, bounds + 1))
        return;
    for (i64 i = 0; i < rows; i++)
        if (n_beyond(sizes + i * channels, 1, channels, bounds + 1))
            memset(out + i * channels, 0, channels * sizeof(i64));
}

/* (values, unit, l1, l2_squared, linf, out) */
i64 bounded_units(const Arg *a)
{
    i64 n = a[0].shape[0], channels = a[0].shape[1];
    double *sizes = malloc((CHECKED * channels + 1) * sizeof(double));
    for (i64 lo = 0; sizes && lo < n; lo += CHECKED) {
        const double *values = (const double *)a[0].data + lo * channels;
        i64 *out = (i64 *)a[5].data + lo * channels;
        if (channels == 2)
            bound_records(values, MIN(n - lo, CHECKED), 2, a + 1, sizes, out);
        else
            bound_records(values, MIN(n - lo, CHECKED), channels, a + 1, sizes, out);
    }
    free(sizes);
    return sizes ? 1 : NO_MEMORY;
}

/* -------------------------------------------------------------------------- losses of one score */

/* 1 / (1 + exp(-z)), step by step as `models.losses.logistic`. */
INLINE double logistic(double z)
{
    z = z < -30.0 ? -30.0 : z;
    z = z > 30.0 ? 30.0 : z;
    Word turns = { WHOLE.number - z * 0x1.71547652b82fep0 }, scale;
    double k = turns.number - WHOLE.number; /* a whole number, which the lowest bits of `turns` hold */
    double r = (-z - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33, power = 1.0 / 479001600.0;
    scale.bits = (i64)(((u64)turns.bits + 1023) << 52);
    power = power * r + 1.0 / 39916800.0;
    power = power * r + 1.0 / 3628800.0;
    power = power * r + 1.0 / 362880.0;
    power = power * r + 1.0 / 40320.0;
    power = power * r + 1.0 / 5040.0;
    power = power * r + 1.0 / 720.0;
    power = power * r + 1.0 / 120.0;
    power = power * r + 1.0 / 24.0;
    power = power * r + 1.0 / 6.0;
    power = power * r + 0.5;
    power = power * r + 1.0;
    power = power * r + 1.0;
    return 1.0 / (1.0 + power * scale.number);
}

/* (n, 2) contributions. `loss`: factor of the Hessian, low, high, clip; 0 clips no residual. */
static void contributions(const double *loss, const double *raw, const double *y, i64 n, double *out)
{
    double factor = loss[0], low = loss[1], high = loss[2], clip = loss[3];
    for (i64 i = 0; clip == 0.0 && i < n; i++) {
        double p = logistic(raw[i]);
        out[2 * i] = p - y[i];
        out[2 * i + 1] = factor * p * (1.0 - p);
    }
    for (i64 i = 0; clip != 0.0 && i < n; i++) {
        double target = y[i] < low ? low : y[i];
        double residual = (target > high ? high : target) - raw[i];
        residual = residual < -clip ? -clip : residual;
        out[2 * i] = -(residual > clip ? clip : residual) / clip;
        out[2 * i + 1] = factor;
    }
}

/* (loss, raw, y, out) */
i64 loss_contributions(const Arg *a)
{
    contributions(a[0].data, a[1].data, a[2].data, a[2].shape[0], a[3].data);
    return 1;
}

/* (added trees, trees, codes, low, high, raw, loss, y, unit, l1, l2_squared, linf, out): a
   round of boosting. Adds trees to the scores, and contributions there to the leaves of others. */
i64 boosting_sums(const Arg *added)
{
    const Arg *trees = added + N_FIELDS, *codes = trees + N_FIELDS, *bounds = codes + 6;
    i64 n = codes[5].shape[0], stats[2 * BLOCK];
    double values[2 * BLOCK], sizes[2 * CHECKED];
    i32 one_node[BLOCK] = {0};
    u8 *stack = stack_for(added), *other = stack_for(trees);
    Sums sums, *s = &sums;
    int ready = stack && other && begin_sums(s, 2, codes + 10);
    for (i64 lo = 0; ready && lo < n; lo += BLOCK) {
        i64 rows = MIN(n - lo, BLOCK);
        double *raw = (double *)codes[3].data + lo;
        add_trees(added, codes, codes + 1, lo, rows, raw, 1, stack);
        contributions(codes[4].data, raw, (const double *)codes[5].data + lo, rows, values);
        for (i64 i = 0; i < rows; i += CHECKED)
            bound_records(values + 2 * i, MIN(rows - i, CHECKED), 2, bounds, sizes, stats + 2 * i);
        begin_block(s, one_node, stats, rows);
        add_leaves(s, trees, codes, lo, other);
    }
    free(stack), free(other);
    return ready ? end_sums(s, 1) : NO_MEMORY;
}

/* (tables, codes, constant, radius, weights, z, score) */
i64 scaled_rows(const Arg *a)
{
    const double *tables = a[0].data, *weights = a[4].data;
    double constant = a[2].number, radius = a[3].number, *score = a[6].data, norm[TILE];
    i64 last = a[0].shape[0], n = a[5].shape[0], d = last + 1;
    for (i64 lo = 0; lo < n; lo += TILE) {
        i64 rows = MIN(n - lo, TILE);
        double *z = (double *)a[5].data + lo * d;
        memset(norm, 0, sizeof norm);
        for (i64 j = 0; j < last; j++) {
            const u8 *cells = (const u8 *)a[1].data + j * n + lo;
            for (i64 r = 0; r < rows; r++) {
                double value = tables[j * N_CODES + cells[r]];
                z[r * d + j] = value;
                norm[r] += value * value;
            }
        }
        for (i64 r = 0; r < rows; r++) {
            double length = sqrt(norm[r] + constant * constant);
            double scale = 1.0 / (length > radius ? length : radius), sum = score[lo + r];
            z[r * d + last] = constant;
            for (i64 j = 0; j < d; j++) {
                z[r * d + j] *= scale;
                sum += z[r * d + j] * weights[j];
            }
            score[lo + r] = sum;
        }
    }
    return 1;
}

/* Row numbers of a tile's records within the bound; returns how many there are. */
static i64 fitting_rows(const Arg *a, i64 lo, i64 *kept)
{
    const double *g = a[1].data, *h = a[2].data;
    i64 n_kept = 0, d = a[0].shape[1];
    for (i64 r = lo; r < MIN(lo + TILE, a[0].shape[0]); r++) {
        const double *z = (const double *)a[0].data + r * d;
        double s = 0.0, q = 0.0;
        for (i64 j = 0; j < d; j++) {
            double square = z[j] * z[j];
            s += square;
            q += square * square;
        }
        kept[n_kept] = r;
        n_kept += g[r] * g[r] * s + h[r] * h[r] * (0.5 * (s * s + q)) <= a[3].number;
    }
    return n_kept;
}

/* (z, g, h, limit, total). Sums of truncated numbers are whole and far below 2^53, so floating
   point adds them exactly. */
i64 add_vectors(const Arg *a)
{
    const double *g = a[1].data, *h = a[2].data;
    i64 *total = a[4].data, n = a[0].shape[0], d = a[0].shape[1], kept[TILE];
    double *sums = calloc(d + d * (d + 1) / 2 + 1, sizeof(double));
    for (i64 lo = 0; sums && lo < n; lo += TILE) {
        i64 n_kept = fitting_rows(a, lo, kept);
        double *to = sums + d;
        for (i64 k = 0; k < n_kept; k++)
            for (i64 j = 0; j < d; j++)
                sums[j] += trunc(g[kept[k]] * ((const double *)a[0].data)[kept[k] * d + j]);
        for (i64 i = 0; i < d; to += d - i, i++)
            for (i64 k = 0; k < n_kept; k++) {
                const double *z = (const double *)a[0].data + kept[k] * d + i;
                double factor = h[kept[k]] * z[0];
                for (i64 j = 0; j < d - i; j++)
                    to[j] += trunc(factor * z[j]);
            }
    }
    for (i64 j = 0; sums && j < d + d * (d + 1) / 2; j++)
        total[j] += (i64)sums[j];
    free(sums);
    return sums ? 1 : NO_MEMORY;
}

/* ------------------------------------------------------------------------ curves and surfaces */

/* Fields of a table in `Basis.layout`: three rows, its first cell, groups of two of the rows. */
enum { FIRST, SECOND, THIRD, BEGIN, SECONDS, THIRDS, N_OF_TABLE };

/* The cell of n records in every table, counted from its first: (S, FEW). */
static void find_places(const u8 *const *rows, const Arg *layout, i64 n, u16 *restrict places)
{
    const i64 *table = layout->data;
    for (i64 t = 0; t < layout->shape[0]; t++, table += N_OF_TABLE, places += FEW) {
        const u8 *first = rows[table[FIRST]], *second = rows[table[SECOND]];
        const u8 *third = rows[table[THIRD]];
        u16 seconds = (u16)table[SECONDS], thirds = (u16)table[THIRDS];
        if (seconds == 1 && thirds == 1)
            for (i64 i = 0; i < n; i++)
                places[i] = first[i];
        else
            for (i64 i = 0; i < n; i++)
                places[i] = (u16)((u16)((u16)(seconds * first[i]) + second[i]) * thirds) + third[i];
    }
}

/* Runs one statement at the cell of every record in every table, in four of them at once: then a
   record's own number is read and written once for four. */
#define AT_CELLS(statement)                                                                        \
    i64 t = 0, left = layout->shape[0];                                                            \
    const i64 *begin = (const i64 *)layout->data + BEGIN;                                          \
    for (; t + 4 <= left; t += 4, begin += 4 * N_OF_TABLE, places += 4 * FEW) {                    \
        i64 a = *begin, b = begin[N_OF_TABLE], c = begin[2 * N_OF_TABLE], cell;                    \
        i64 d = begin[3 * N_OF_TABLE];                                                             \
        for (i64 i = 0; i < n; i++) {                                                              \
            cell = a + places[i]; statement;                                                       \
            cell = b + places[FEW + i]; statement;                                                 \
            cell = c + places[2 * FEW + i]; statement;                                             \
            cell = d + places[3 * FEW + i]; statement;                                             \
        }                                                                                          \
    }                                                                                              \
    for (; t < left; t++, begin += N_OF_TABLE, places += FEW)                                      \
        for (i64 i = 0, cell; i < n; i++) {                                                        \
            cell = *begin + places[i]; statement;                                                  \
        }

static void add_numbers(const u16 *places, const Arg *layout, const double *restrict numbers,
                        i64 n, double *restrict out)
{
    AT_CELLS(out[i] += numbers[cell])
}

static void add_to_cells(const u16 *places, const Arg *layout, const i64 *restrict multiples,
                         i64 n, i64 *restrict totals)
{
    AT_CELLS(totals[cell] += multiples[i])
}

INLINE i64 at_places(const Arg *a, int adds)
{
    i64 n_rows = a[0].shape[0], n = a[0].shape[1];
    const u8 **rows = malloc((n_rows + 1) * sizeof(u8 *));
    u16 *places = malloc((a[1].shape[0] * FEW + 1) * sizeof(u16));
    for (i64 lo = 0; rows && places && lo < n; lo += FEW) {
        for (i64 r = 0; r < n_rows; r++)
            rows[r] = (const u8 *)a[0].data + r * n + lo;
        find_places(rows, a + 1, MIN(n - lo, FEW), places);
        if (adds)
            add_to_cells(places, a + 1, (i64 *)a[2].data + lo, MIN(n - lo, FEW), a[3].data);
        else
            add_numbers(places, a + 1, a[2].data, MIN(n - lo, FEW), (double *)a[3].data + lo);
    }
    int ready = rows && places;
    free(rows), free(places);
    return ready ? 1 : NO_MEMORY;
}

/* (groups, layout, numbers, out) */
i64 look_up(const Arg *a) { return at_places(a, 0); }

/* (groups, layout, multiples, totals) */
i64 add_at_places(const Arg *a) { return at_places(a, 1); }

/* Multiples of n records; `bounds`: units, radius, limit. */
INLINE void multiples_of(const double *gradient, const double *norm, const Arg *bounds, i64 n,
                         i64 outputs, i64 *out)
{
    double units = bounds[0].number, radius = bounds[1].number, limit = bounds[2].number;
    for (i64 i = 0; i < n; i++) {
        double scale = radius / sqrt(norm[i] > radius * radius ? norm[i] : radius * radius);
        double squares = 0.0;
        for (i64 o = 0; o < outputs; o++) {
            double multiple = trunc(units * (gradient[i * outputs + o] * scale));
            squares += multiple * multiple;
        }
        int fits = squares * norm[i] <= limit;
        for (i64 o = 0; o < outputs; o++) {
            double multiple = trunc(units * (gradient[i * outputs + o] * scale));
            Word whole = { (fits ? multiple : 0.0) + WHOLE.number };
            out[i * outputs + o] = whole.bits - WHOLE.bits;
        }
    }
}

/* (gradient, norm, units, radius, limit, out) */
i64 bounded_multiples(const Arg *a)
{
    i64 outputs = a[0].shape[1];
    multiples_of(a[0].data, a[1].data, a + 2, a[0].shape[0], outputs, a[5].data);
    return 1;
}

/* (codes, columns, groups, layout, numbers, norm, raw, loss, y, longer, clip, units, radius, limit,
   totals): a gradient step of one score, in one pass. */
i64 surface_step(const Arg *a)
{
    const u8 *codes = a[0].data, *groups = a[2].data;
    const i64 *columns = a[1].data;
    const double *norm = a[5].data, *raw = a[6].data, *y = a[8].data;
    double longer = a[9].number, clip = a[10].number, score[FEW], both[2 * FEW], gradient[FEW];
    i64 grouped = a[1].shape[0], F = a[0].shape[0], n = a[0].shape[1], multiples[FEW];
    u8 *cells = malloc(grouped * FEW + 1);
    u16 *places = malloc((a[3].shape[0] * FEW + 1) * sizeof(u16));
    const u8 **rows = malloc((grouped + F) * sizeof(u8 *));
    int ready = cells && places && rows;
    for (i64 lo = 0; ready && lo < n; lo += FEW) {
        i64 few = MIN(n - lo, FEW);
        for (i64 r = 0; r < grouped; r++) {
            const u8 *own = codes + columns[r] * n + lo, *group = groups + r * N_CODES;
            u8 *to = cells + r * FEW;
            for (i64 i = 0; i < few; i++)
                to[i] = group[own[i]];
            rows[r] = to;
        }
        for (i64 j = 0; j < F; j++)
            rows[grouped + j] = codes + j * n + lo;
        find_places(rows, a + 3, few, places);
        memset(score, 0, sizeof score);
        add_numbers(places, a + 3, a[4].data, few, score);
        for (i64 i = 0; i < few; i++)
            score[i] = raw[lo + i] + score[i];
        contributions(a[7].data, score, y + lo, few, both);
        for (i64 i = 0; i < few; i++) {
            double g = both[2 * i], size = longer * sqrt(g * g);
            gradient[i] = g / (size > clip ? size : clip);
        }
        multiples_of(gradient, norm + lo, a + 11, few, 1, multiples);
        add_to_cells(places, a + 3, multiples, few, a[14].data);
    }
    free(cells), free(places), free(rows);
    return ready ? 1 : NO_MEMORY;
}

/* --------------------------------------------------------------------------------------- noise */

/* (words, thresholds, guide, shift, out, ties): one step is taken without a branch, since most
   words have one threshold to compare with. Returns the number of ties. */
i64 invert(const Arg *a)
{
    const u64 *words = a[0].data, *thresholds = a[1].data;
    const i32 *guide = a[2].data;
    i64 *out = a[4].data, *ties = a[5].data, n_ties = 0, last = a[1].shape[0];
    for (i64 i = 0; i < a[0].shape[0]; i++) {
        u64 word = words[i];
        i64 k = guide[word >> a[3].whole];
        if (k < last) {
            k += thresholds[k] <= word;
            while (k < last && thresholds[k] <= word)
                k++;
        }
        out[i] = k;
        if (k == last || (k > 0 && thresholds[k - 1] == word))
            ties[n_ties++] = i;
    }
    return n_ties;
}
