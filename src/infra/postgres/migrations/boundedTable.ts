/** The trigger by which a table refuses what goes beyond its bound; `core.require_room` of 0001_core.ts counts. */

/**
 * Refuses inserts that bring the table beyond `rowsMax`, or beyond it for one value of `owner`. It counts without a
 * lock: inserts of the same moment may pass together, and the next one is refused. Source: FC-15.
 */
export const boundedTable = (table: string, rowsMax: number, owner?: string): string =>
  `create trigger ${table.split(".").at(-1)}_bounded after insert on ${table}
    referencing new table as added for each statement
    execute function core.require_room('${rowsMax}'${owner === undefined ? "" : `, '${owner}'`})`
