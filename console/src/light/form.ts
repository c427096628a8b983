import { type FormEvent, useState } from 'react';
import { type ApiProblem, asProblem } from '../api/problem';

/**
 * A form of the light pages: checks first, sends once at a time, and puts what the server refuses beside the input it
 * names. What names no input of the form is left in `problem`.
 */
export function useForm<K extends string>(
  values: Record<K, string>,
  check: (values: Record<K, string>) => Partial<Record<K, string>>,
  send: (values: Record<K, string>) => Promise<void>,
) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();
  const [errors, setErrors] = useState<Partial<Record<K, string>>>({});

  async function submit(e?: FormEvent) {
    e?.preventDefault();
    if (busy) {
      return;
    }
    setProblem(undefined);
    const found = check(values);
    setErrors(found);
    if (Object.keys(found).length > 0) {
      return;
    }
    setBusy(true);
    try {
      await send(values);
    } catch (err) {
      const p = asProblem(err);
      const byField: Partial<Record<K, string>> = {};
      for (const f of p.fieldErrors()) {
        if (f.field in values) {
          byField[f.field as K] = f.detail;
        }
      }
      setErrors(byField);
      setProblem(Object.keys(byField).length > 0 ? undefined : p);
    } finally {
      setBusy(false);
    }
  }

  return { busy, problem, errors, submit };
}

export const emailPattern = /^[^\s@]{1,64}@[^\s@]{1,189}$/;
export const minPassword = 10;
