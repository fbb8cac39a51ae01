/** The parser, loaded when it is wanted. Invariant: its names are imported by a static import, which a bundle keeps. */
export { CronExpressionParser } from "cron-parser";
