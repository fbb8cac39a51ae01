/** The YAML library behind one door of its own, so that it is loaded only for a file that needs it. */
export {
  isCollection,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parse,
  parseDocument,
  stringify,
  visit,
} from "yaml";
