/** The YAML library behind one door of its own, so that it is loaded only for a file that needs it. */
export { parse, stringify } from "yaml";
