// The kernels of the workloads on OpenCL. The arithmetic is that of arithmetic.hpp, bit by bit; what the
// arguments are is said where the same is done on the CPU. A slice comes as the buffer that it lies in and the
// number of elements in front of it.

#pragma OPENCL FP_CONTRACT OFF

ulong mix_bits(ulong x) {
  x += 0x9e3779b97f4a7c15UL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9UL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebUL;
  return x ^ (x >> 31);
}

#ifdef WITH_DOUBLES
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

double centred(ulong bits) { return (double)(bits >> 11) * 0x1p-53 - 0.5; }

// ---- cholesky: tiles by columns.

kernel void make_tile(global double* to, ulong seed, ulong n, ulong row, ulong column, ulong height) {
  const ulong i = get_global_id(0);
  const ulong r = row + i % height;
  const ulong c = column + i / height;
  const double off = centred(mix_bits(seed + (max(r, c) << 32 | min(r, c))));
  to[i] = r == c ? (double)n + off : off;
}

// One work-group; column after column. status[0] becomes the first row, from 1, where it cannot go on.
kernel void potrf(int b, global double* a, global int* status) {
  const int me = get_local_id(0);
  const int all = get_local_size(0);
  if (me == 0) status[0] = 0;
  for (int j = 0; j < b; ++j) {
    barrier(CLK_GLOBAL_MEM_FENCE);
    const double pivot = a[j * b + j];
    if (!(pivot > 0.0)) {
      if (me == 0) status[0] = j + 1;
      return;
    }
    const double root = sqrt(pivot);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int i = j + me; i < b; i += all) a[j * b + i] = i == j ? root : a[j * b + i] / root;
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int c = j + 1; c < b; ++c) {
      const double by = a[j * b + c];
      for (int i = c + me; i < b; i += all) a[c * b + i] -= a[j * b + i] * by;
    }
  }
}

// A row for each work-item: a := a L^-T.
kernel void trsm(int m, int n, global const double* l, global double* a) {
  const int i = get_global_id(0);
  for (int j = 0; j < n; ++j) {
    double sum = a[j * m + i];
    for (int k = 0; k < j; ++k) sum -= a[k * m + i] * l[k * n + j];
    a[j * m + i] = sum / l[j * n + j];
  }
}

// Four columns for each work-item: c -= a b^T.
kernel void gemm(int m, int n, int depth, global const double* a, global const double* b, global double* c) {
  const int i = get_global_id(0);
  const int j = 4 * get_global_id(1);
  const int last = n - 1;
  double sum0 = 0.0, sum1 = 0.0, sum2 = 0.0, sum3 = 0.0;
  for (int k = 0; k < depth; ++k) {
    const double x = a[k * m + i];
    sum0 += x * b[k * n + j];
    sum1 += x * b[k * n + min(j + 1, last)];
    sum2 += x * b[k * n + min(j + 2, last)];
    sum3 += x * b[k * n + min(j + 3, last)];
  }
  c[j * m + i] -= sum0;
  if (j + 1 < n) c[(j + 1) * m + i] -= sum1;
  if (j + 2 < n) c[(j + 2) * m + i] -= sum2;
  if (j + 3 < n) c[(j + 3) * m + i] -= sum3;
}

// ---- stencil

// A point of a block, and the copies of it in the edges.
void put(global double* block, ulong rows, ulong columns, ulong r, ulong c, double value) {
  global double* const north = block + rows * columns;
  global double* const south = north + columns;
  global double* const west = south + columns;
  global double* const east = west + rows;
  block[r * columns + c] = value;
  if (r == 0) north[c] = value;
  if (r == rows - 1) south[c] = value;
  if (c == 0) west[r] = value;
  if (c == columns - 1) east[r] = value;
}

kernel void make_block(global double* to, ulong rows, ulong columns, ulong seed, ulong n, ulong row, ulong column) {
  const ulong c = get_global_id(0);
  const ulong r = get_global_id(1);
  put(to, rows, columns, r, c, centred(mix_bits(seed + (row + r) * n + column + c)));
}

kernel void step_block(ulong rows, ulong columns, global const double* old, ulong old_at, global const double* north,
                       ulong north_at, global const double* south, ulong south_at, global const double* west,
                       ulong west_at, global const double* east, ulong east_at, global double* to, ulong to_at) {
  const ulong c = get_global_id(0);
  const ulong r = get_global_id(1);
  global const double* const here = old + old_at + r * columns + c;
  const double n = r > 0 ? here[-(long)columns] : north[north_at + c];
  const double s = r + 1 < rows ? here[columns] : south[south_at + c];
  const double w = c > 0 ? here[-1] : west[west_at + r];
  const double e = c + 1 < columns ? here[1] : east[east_at + r];
  put(to + to_at, rows, columns, r, c, 0.25 * ((n + s) + (w + e)));
}
#endif

// ---- pipeline

kernel void decode(global const uchar* packed, global uint* frame) {
  const ulong i = get_global_id(0);
  const uint level = ((uint)packed[i / 4] >> (2 * (i % 4))) & 3u;
  frame[i] = level * 16384u + (uint)(mix_bits(i) & 4095u);
}

kernel void filter(global const uint* frame, global uint* smooth) {
  const long i = get_global_id(0);
  const long last = (long)get_global_size(0) - 1;
  const uint a = frame[max(i - 2, 0L)];
  const uint b = frame[max(i - 1, 0L)];
  const uint d = frame[min(i + 1, last)];
  const uint e = frame[min(i + 2, last)];
  smooth[i] = (a + 4 * b + 6 * frame[i] + 4 * d + e + 8) / 16;
}

kernel void blend(global const uint* smooth, global uint* background, global uint* difference) {
  const ulong i = get_global_id(0);
  difference[i] = smooth[i] - background[i];
  background[i] = (3 * background[i] + smooth[i] + 2) / 4;
}

kernel void encode(global const uint* difference, global uchar* coded) {
  const ulong i = get_global_id(0);
  coded[i] = (uchar)((difference[i] >> 6) ^ (difference[i] >> 14));
}

// Of all work-items of the group; each gets it.
ulong sum_of_group(ulong mine, local ulong* parts) {
  const size_t me = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  parts[me] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  ulong sum = 0;
  for (size_t i = 0; i < get_local_size(0); ++i) sum += parts[i];
  return sum;
}

kernel void digest(global const uchar* coded, ulong n, global ulong* to, local ulong* parts) {
  ulong mine = 0;
  for (ulong i = get_local_id(0); i < n; i += get_local_size(0)) mine += mix_bits(i * 256 + coded[i]);
  const ulong sum = sum_of_group(mine, parts);
  if (get_local_id(0) == 0) *to = sum;
}

// ---- inference: a row for each work-item.

kernel void layer(global const short* weights, global const short* from, global short* to, ulong width) {
  const ulong row = get_global_id(0);
  int sum = 0;
  for (ulong i = 0; i < width; ++i) sum += (int)weights[row * width + i] * (int)from[i];
  to[row] = (short)clamp((sum + 1024) >> 11, 0, 255);
}

// ---- taskgraph: a kernel for each access of an op, one behind the other, each of one work-group.

ulong piece_of(uint access, ulong piece) { return (ulong)access << 40 | piece; }
ulong absorbed(ulong word, uint access, ulong piece) { return mix_bits(word ^ mix_bits(piece_of(access, piece))); }
ulong emitted(ulong value, uint access, ulong piece) { return mix_bits(value + piece_of(access, piece)); }

// Adds what the access finds to the op's value; the first one begins with the seed.
kernel void absorb(global const ulong* words, ulong at, global const ulong* cuts, ulong first_cut, ulong first,
                   uint cut_count, ulong sum_count, uint access, ulong seed, int is_first, global ulong* value,
                   ulong cell, local ulong* parts) {
  ulong mine = 0;
  for (ulong c = get_local_id(0); c < cut_count; c += get_local_size(0)) {
    mine += absorbed(words[at + cuts[first_cut + c] - first], access, c);
  }
  for (ulong w = get_local_id(0); w < sum_count; w += get_local_size(0)) mine += absorbed(words[at + w], access, w);
  const ulong sum = sum_of_group(mine, parts);
  if (get_local_id(0) == 0) value[cell] = sum + (is_first ? seed : value[cell]);
}

kernel void begin_value(global ulong* value, ulong cell, ulong seed) { value[cell] = seed; }

kernel void fill_words(global ulong* words, ulong at, ulong count, uint access, global const ulong* value, ulong cell) {
  for (ulong w = get_local_id(0); w < count; w += get_local_size(0)) {
    words[at + w] = emitted(~value[cell], access, w);
  }
}

kernel void copy_words(global ulong* words, ulong at, ulong count, global const ulong* from, ulong from_at,
                       ulong from_count) {
  for (ulong w = get_local_id(0); w < count; w += get_local_size(0)) words[at + w] = from[from_at + w % from_count];
}

// 64 bits by halves: only the sum matters, and whoever reads it comes later.
void add_atomically(volatile global uint* halves, ulong by) {
  const uint low = (uint)by;
  const uint before = atomic_add(&halves[0], low);
  const uint carry = (uint)(before + low) < before ? 1u : 0u;
  atomic_add(&halves[1], (uint)(by >> 32) + carry);
}

kernel void emit(global ulong* words, ulong at, global const ulong* cuts, ulong first_cut, ulong first, uint cut_count,
                 uint access, int accumulates, global const ulong* value, ulong cell) {
  for (ulong c = get_local_id(0); c < cut_count; c += get_local_size(0)) {
    global ulong* const to = words + at + cuts[first_cut + c] - first;
    const ulong out = emitted(value[cell], access, c);
    if (accumulates) {
      add_atomically((volatile global uint*)to, out);
    } else {
      *to = out;
    }
  }
}

kernel void spin(ulong rounds, global ulong* value, ulong cell) {
  ulong x = rounds;
  for (ulong i = 0; i < rounds; ++i) x = mix_bits(x);
  if (x == 1 && rounds == 0) value[cell] = x;  // never: it has to be worked out
}
