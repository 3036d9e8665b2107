/**
 * Settings of a function that is told how many rows it is about: one plan for a session, which finds every row by an
 * index, whatever the statistics say of a table that has just been filled or emptied. A plan for each call would cost
 * more than most calls, one for many rows would read a whole table, and a sort would lock all that is queued before the
 * first is taken.
 */
export const plannedOnce = [
  "set plan_cache_mode = force_generic_plan",
  "set enable_sort = off",
  "set enable_hashjoin = off",
  "set enable_mergejoin = off",
  "set enable_seqscan = off"
].join(" ")
