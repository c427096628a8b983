import { Navigate } from '@tanstack/react-router';
import { lastNamespace, useNamespaces } from '../data';
import { Outcome } from '../ui';

/** Leads to the topics of the namespace looked at last. */
export function Home() {
  const query = useNamespaces();
  return (
    <Outcome query={query}>
      {(all) => {
        const last = lastNamespace();
        const ns = all.find((n) => n.id === last)?.id ?? all[0]?.id;
        return ns ? <Navigate to="/n/$ns/topics" params={{ ns }} replace /> : <Navigate to="/namespaces" replace />;
      }}
    </Outcome>
  );
}
