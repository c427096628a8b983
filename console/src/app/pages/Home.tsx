import { Navigate } from '@tanstack/react-router';
import { lastNamespace, useMe, useNamespaces } from '../data';
import { mayDo } from '../may';
import { Outcome } from '../ui';

/** Leads to the topics of the namespace looked at last; whoever may see none, to what they may see. */
export function Home() {
  const me = useMe();
  return (
    <Outcome query={me}>
      {(m) =>
        mayDo(m, 'namespace:read') ? (
          <FirstNamespace />
        ) : (
          <Navigate to={mayDo(m, 'usage:read') ? '/usage' : '/account'} replace />
        )
      }
    </Outcome>
  );
}

function FirstNamespace() {
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
