/** The sheet of keys. Invariant: it lists what shortcuts.ts does, made from the same table. */
import { useEffect, useRef } from "preact/hooks";
import { helpOpen } from "./overlays.ts";
import { shortcuts } from "./shortcuts.ts";

export function HelpSheet() {
  const sheet = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = sheet.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={sheet} class="help" aria-labelledby="help-title" onClose={() => helpOpen.set(false)}>
      <div class="row">
        <h2 id="help-title">Keys</h2>
        <button type="button" onClick={() => helpOpen.set(false)}>
          Close
        </button>
      </div>
      <table>
        <tbody>
          {shortcuts.map(({ keys, what }) => (
            <tr key={keys}>
              <td>
                {keys.split(" ").map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </td>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </dialog>
  );
}
