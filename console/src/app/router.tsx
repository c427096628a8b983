import type { QueryClient } from '@tanstack/react-query';
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from '@tanstack/react-router';
import { basePath } from '../api/client';
import { paths } from '../paths';
import { Broken, Missing, Waiting } from './Fallbacks';
import { Shell } from './Shell';
import {
  accessSearch,
  accountSearch,
  auditSearch,
  costsSearch,
  groupSearch,
  keysSearch,
  listSearch,
  rolesSearch,
  topicSearch,
  topicsSearch,
  usageSearch,
} from './search';

const root = createRootRouteWithContext<{ queries: QueryClient }>()({ component: Shell, notFoundComponent: Missing });
const under = () => root;

const home = createRoute({
  getParentRoute: under,
  path: paths.home,
  component: lazyRouteComponent(() => import('./pages/Home'), 'Home'),
});
const namespaces = createRoute({
  getParentRoute: under,
  path: paths.namespaces,
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import('./pages/Namespaces'), 'Namespaces'),
});
const topics = createRoute({
  getParentRoute: under,
  path: paths.topics,
  validateSearch: topicsSearch,
  component: lazyRouteComponent(() => import('./pages/Topics'), 'Topics'),
});
const topic = createRoute({
  getParentRoute: under,
  path: paths.topic,
  validateSearch: topicSearch,
  component: lazyRouteComponent(() => import('./pages/Topic'), 'Topic'),
});
const groups = createRoute({
  getParentRoute: under,
  path: paths.groups,
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import('./pages/Groups'), 'Groups'),
});
const group = createRoute({
  getParentRoute: under,
  path: paths.group,
  validateSearch: groupSearch,
  component: lazyRouteComponent(() => import('./pages/Group'), 'Group'),
});
const keys = createRoute({
  getParentRoute: under,
  path: paths.keys,
  validateSearch: keysSearch,
  component: lazyRouteComponent(() => import('./pages/Keys'), 'Keys'),
});
const key = createRoute({
  getParentRoute: under,
  path: paths.key,
  component: lazyRouteComponent(() => import('./pages/Key'), 'Key'),
});
const roles = createRoute({
  getParentRoute: under,
  path: paths.roles,
  validateSearch: rolesSearch,
  component: lazyRouteComponent(() => import('./pages/Roles'), 'Roles'),
});
const serviceAccounts = createRoute({
  getParentRoute: under,
  path: paths.serviceAccounts,
  component: lazyRouteComponent(() => import('./pages/ServiceAccounts'), 'ServiceAccounts'),
});
const security = createRoute({
  getParentRoute: under,
  path: paths.security,
  component: lazyRouteComponent(() => import('./pages/Security'), 'Security'),
});
const provider = createRoute({
  getParentRoute: under,
  path: paths.provider,
  component: lazyRouteComponent(() => import('./pages/Provider'), 'Provider'),
});
const keysInMails = createRoute({
  getParentRoute: under,
  path: paths.keysInMails,
  beforeLoad: () => {
    throw redirect({ to: '/api-keys', replace: true });
  },
});
const usage = createRoute({
  getParentRoute: under,
  path: paths.usage,
  validateSearch: usageSearch,
  component: lazyRouteComponent(() => import('./pages/Usage'), 'Usage'),
});
const costs = createRoute({
  getParentRoute: under,
  path: paths.costs,
  validateSearch: costsSearch,
  component: lazyRouteComponent(() => import('./pages/Costs'), 'Costs'),
});
const quotas = createRoute({
  getParentRoute: under,
  path: paths.quotas,
  component: lazyRouteComponent(() => import('./pages/Quotas'), 'Quotas'),
});
const members = createRoute({
  getParentRoute: under,
  path: paths.members,
  component: lazyRouteComponent(() => import('./pages/Members'), 'Members'),
});
const access = createRoute({
  getParentRoute: under,
  path: paths.access,
  validateSearch: accessSearch,
  component: lazyRouteComponent(() => import('./pages/Access'), 'Access'),
});
const audit = createRoute({
  getParentRoute: under,
  path: paths.audit,
  validateSearch: auditSearch,
  component: lazyRouteComponent(() => import('./pages/Audit'), 'Audit'),
});
const account = createRoute({
  getParentRoute: under,
  path: paths.account,
  validateSearch: accountSearch,
  component: lazyRouteComponent(() => import('./pages/Account'), 'Account'),
});

const routeTree = root.addChildren([
  home,
  namespaces,
  topics,
  topic,
  groups,
  group,
  keys,
  key,
  keysInMails,
  roles,
  serviceAccounts,
  security,
  provider,
  usage,
  costs,
  quotas,
  members,
  access,
  audit,
  account,
]);

export function newRouter(queries: QueryClient) {
  return createRouter({
    routeTree,
    basepath: basePath,
    context: { queries },
    defaultErrorComponent: Broken,
    defaultNotFoundComponent: Missing,
    defaultPendingComponent: Waiting,
    scrollRestoration: true,
  });
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
